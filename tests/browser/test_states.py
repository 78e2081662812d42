"""What the page shows while it waits or refuses, and what it says alike in every view: models, months, terms."""

from __future__ import annotations

import math
import re

import pytest
from pages import Page

from serving import Server

pytestmark = pytest.mark.slow
ENTER = "\ue007"
# Every question to the server waits until the test lets it go on.
_HOLD = """
const real = window.fetch;
const held = new Promise((go) => { window.release = go; });
window.fetch = async (...all) => { if (String(all[0]).startsWith('/api/')) await held; return real(...all); };
"""
_CARDS = """
return [...document.querySelectorAll('main .card')].filter((card) => card.checkVisibility({ visibilityProperty: true }))
  .map((card) => card.className)
"""
_FACTS = """
return Object.fromEntries([...document.querySelectorAll('main .facts > div')].map((one) =>
  [one.querySelector('dt').textContent, one.querySelector('dd').innerText]))
"""


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize("width", [1440, 390])
def test_a_name_that_is_not_known_is_corrected_where_it_was_typed(page: Page, width: int) -> None:
    page.size(width)
    page.open(model="resnt50", budget="800")
    assert page.run(_CARDS) == ["card start"]
    field = page.driver.find_element("css selector", ".start input[name=model]")
    assert field.is_displayed()
    assert field.get_attribute("aria-invalid") == "true"
    assert "resnt50" in page.run(
        "return document.getElementById(arguments[0]).textContent", field.get_attribute("aria-describedby")
    )
    assert not page.run("return document.getElementById('pin').checkVisibility()")
    field.clear()
    field.send_keys("resnet50" + ENTER)
    page.until("return document.querySelector('.pick')?.textContent && !document.querySelector('.waiting, [role=alert]')")
    assert page.run("return document.querySelectorAll('[aria-invalid]').length") == 0
    assert page.state == {"model": "resnet50", "budget": "800"}


def test_a_folded_field_that_holds_a_mistake_is_opened(page: Page) -> None:
    page.size(390)
    page.open(view="model", gpu="RTX 9999")
    field = page.driver.find_element("css selector", "#inputs [name=gpu]")
    assert field.is_displayed()
    assert field.get_attribute("aria-invalid") == "true"
    assert "These results are for" not in page.text


# ---------------------------------------------------------------- awaited


def test_the_first_answer_of_a_view_is_awaited_in_one_card(page: Page) -> None:
    page.open(view="why")
    page.run(_HOLD)
    page.run("document.getElementById('nav-model').click()")
    page.until("return document.getElementById('computing')")
    assert page.run("return document.getElementById('computing').textContent") == "Predicting ResNet-50 on the RTX 3090 …"
    assert page.run(_CARDS) == ["card verdict-card"]
    page.run("release()")
    page.until("return document.querySelector('.pick').textContent && !document.querySelector('.waiting')")
    assert len(page.run(_CARDS)) > 4
    widths = (
        "return document.querySelector('.chart').getBoundingClientRect().width - document.querySelector('.chart svg').clientWidth"
    )
    assert abs(page.run(widths)) < 4  # drawn for the width that it has
    assert page.complaints() == []


def test_what_asks_stays_in_use_while_its_answer_is_awaited(page: Page) -> None:
    page.open(view="compare", cards="RTX 3090,RTX 4090")
    page.run(_HOLD)
    field = page.driver.find_element("id", "card-2")
    field.send_keys("RTX 3080 10GB" + ENTER)
    page.until("return document.getElementById('computing') && document.querySelector('.late')")
    assert page.run("return getComputedStyle(document.querySelector('.pick')).visibility") == "hidden"
    for name in ("opacity", "visibility"):
        assert page.run(f"return getComputedStyle(document.querySelector('.ask')).{name}") in ("1", "visible")
    page.run("release()")
    page.until("return document.querySelector('.verdict').textContent.includes('3080') && !document.querySelector('.waiting')")


# ---------------------------------------------------------------- said alike


@pytest.mark.parametrize("view", ["choose", "model", "compare", "scale"])
def test_a_model_has_one_name_in_every_view(page: Page, view: str) -> None:
    page.open(view=view, model="bert-large-uncased", cards="RTX 4090,RTX A6000")
    page.run("document.querySelectorAll('main details').forEach((fold) => (fold.open = !fold.querySelector('.own-model')))")
    assert "BERT-large" in page.text
    assert re.findall(r"(?<!/)\bbert-large", page.text) == []  # but in the address of a source
    shown = "return [...document.querySelectorAll('[name=model]')].map((field) => field.value)"
    assert set(page.run(shown)) == {"BERT-large"}


def test_a_model_is_understood_by_either_name_and_shown_by_its_title(page: Page) -> None:
    page.open(view="model", gpu="RTX 3090")
    for typed in ("vit_base", "ViT-B/16"):
        field = page.driver.find_element("css selector", "#inputs [name=model]")
        field.clear()
        field.send_keys(typed + ENTER)
        page.until(
            "return document.querySelector('.pick').textContent.startsWith('ViT-B/16') && !document.querySelector('.waiting')"
        )
        assert page.state["model"] == "vit_base"
        field.send_keys("\ue004")
        assert field.get_attribute("value") == "ViT-B/16"


@pytest.mark.parametrize("state", [{"task": "learning", "budget": "800"}, {"view": "compare"}, {"view": "rent"}])
def test_a_month_is_written_in_one_form(page: Page, state: dict[str, str]) -> None:
    page.open(**state)
    assert re.findall(r"\b20\d\d-\d\d\b(?!-)", page.text) == []
    assert re.search(r"\b[A-Z][a-z]{2} 20\d\d\b", page.text)


@pytest.mark.parametrize(
    "state",
    [
        {"task": "learning", "budget": "800"},
        {"hours": "25"},
        {"view": "rent", "gpu": "H100 PCIe 80GB"},
        {"view": "compare", "model": "bert-large-uncased", "cards": "RTX 4090,RTX A6000"},
        {"view": "build"},
        {"view": "scale", "model": "bert-base"},
    ],
    ids=lambda state: "-".join(state.values()),
)
def test_an_amount_is_written_in_one_form(page: Page, state: dict[str, str]) -> None:
    page.open(**state)
    page.run("for (const fold of document.querySelectorAll('details')) fold.open = true")
    assert re.findall(r"\d GB\b(?!/)", page.text) == []
    assert re.findall(r"\b(?:one|two|three|four|five|six) (?:month|year)s? old", page.text) == []
    assert re.findall(r"\d×", page.text) == []
    assert re.findall(r"\b\d{3,}\.\d+ W\b", page.text) == []


@pytest.mark.parametrize(
    ("state", "rows", "place"),
    [({"hours": "25"}, ".options", 2), ({"hours": "25"}, ".grid", 3), ({"view": "rent", "gpu": "H100 PCIe 80GB"}, "main", 3)],
)
def test_times_in_a_column_have_one_unit(page: Page, state: dict[str, str], rows: str, place: int) -> None:
    page.open(**state)
    cells = page.run(
        f"return [...document.querySelectorAll('{rows} tbody tr')].map((row) => row.cells[{place}]?.innerText ?? '')"
    )
    units = {found[1] for cell in cells if (found := re.match(r"[\d.,]+ (min|h|days|years|s)\b", cell))}
    assert len(units) == 1


@pytest.mark.parametrize(("source", "kind"), [("buy", "new"), ("used", "used")])
def test_buying_is_reckoned_as_it_was_recommended(page: Page, server: Server, source: str, kind: str) -> None:
    page.open(task="learning", budget="800", source=source)
    best = server.ask("which", task="learning", budget=800, **{source: True}).json["options"][0]
    page.click("Buy or rent", ".ways")
    assert page.state[kind] == "1"
    terms = page.run("return document.querySelector('.purpose').textContent")
    assert terms.startswith(f"For 25 hours a week for 3 years · {kind} price, ")
    assert f"${best['machine_usd']:,.0f} for the rest of the machine" in terms
    facts = page.run(_FACTS)
    assert facts["upfront"].startswith(f"${best['upfront_usd'] + best['machine_usd']:,.0f}")
    if kind == "used":
        assert facts["3-year total"].split()[0] == f"${best['total_usd']:,.0f}"


def test_a_resale_value_is_a_share_of_the_price(page: Page, server: Server) -> None:
    page.open(view="rent", gpu="RTX 4090", count="2", resale="0.5")
    own = server.ask("cost", gpu="RTX 4090", gpus=2).json["own"]
    assert page.run(_FACTS)["resale"].split()[0] == f"${own['gpu_usd'] / 2:,.0f}"


def test_what_a_recommendation_assumes_is_said_beside_its_settings(page: Page) -> None:
    page.open(task="learning", budget="800")
    said = page.run("return document.querySelector('#inputs').innerText")
    assert "25 h a week · 3 years" in said
    assert "NVIDIA" in said
    assert page.run("return document.querySelector('aside').offsetHeight") < 200
    page.move("hours", 60)
    page.move("years", 2)
    assert "60 h a week · 2 years" in page.run("return document.querySelector('#inputs').innerText")


def test_a_model_that_does_not_fit_is_marked_and_its_remedies_come_first(page: Page) -> None:
    page.open(view="model", model="llama-3-70b", gpu="RTX 3090")
    assert page.run("return document.querySelector('.verdict-card').dataset.result") == "fail"
    titles = page.run("return [...document.querySelectorAll('main .card h2')].map((one) => one.textContent)")
    assert titles.index("What would make it fit") < titles.index("Memory")


def test_where_nothing_is_within_the_budget_one_click_raises_it_to_what_comes_nearest(page: Page, server: Server) -> None:
    page.open(model="llama-3-70b", budget="300", weights="q8_0")
    asked = {"model": ["llama-3-70b"], "weights": "q8_0"}
    answer = server.ask("which", budget=300, **asked).json
    assert not any(option["recommended"] for option in answer["options"])
    assert page.pick == "Nothing within these limits"
    page.click(f"Raise the budget to ${math.ceil(answer['options'][0]['upfront_usd']):,}")
    found = server.ask("which", budget=int(page.state["budget"]), **asked).json
    assert next(option["gpu"] for option in found["options"] if option["recommended"]) in page.pick
