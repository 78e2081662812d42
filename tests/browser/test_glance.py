"""What an answer shows at a glance: short headlines, figures in the unit of the work, prices, and one form for dates."""

from __future__ import annotations

import re

import pytest
from pages import Page

from serving import Server

pytestmark = pytest.mark.slow
_FACTS = (
    "return Object.fromEntries([...document.querySelectorAll('main .facts > div')]"
    ".map((one) => [one.querySelector('dt').textContent, one.querySelector('dd').innerText]))"
)


def _dollars(text: str) -> float:
    found = re.search(r"\$([\d,]+(?:\.\d+)?)", text)
    assert found, text
    return float(found[1].replace(",", ""))


def test_a_comparison_of_four_cards_has_a_short_headline_and_says_how_fast_each_is(page: Page, server: Server) -> None:
    cards = ["RTX 4090", "RTX A6000", "RTX 3090", "A100 PCIe 80GB"]
    page.open(view="compare", model="bert-base", cards=",".join(cards))
    ratios = {pair["gpu"]: pair["ratio"] for pair in server.ask("compare", names=cards, model=["bert-base"]).json["pairs"]}
    ratios[cards[0]] = 1.0
    fastest = max(ratios, key=lambda gpu: ratios[gpu])
    assert page.pick == f"The {fastest} is the fastest"
    facts = page.run(_FACTS)
    for gpu, ratio in ratios.items():
        said = "the fastest" if gpu == fastest else f"{100 * ratio / ratios[fastest]:.0f}% of the fastest"
        assert said in facts[gpu]
    assert "fits on all of them" in page.text
    page.until("return document.querySelector('.chart').data?.length === 3")
    rows = page.run("return document.querySelector('.chart').data.map((trace) => trace.y[0])")
    assert len(set(rows)) == 3  # the ranges of one workload do not lie on each other


def test_a_machine_shows_what_its_cards_cost(page: Page, server: Server) -> None:
    page.open(view="build", parts="2x RTX 3090,RTX 4090")
    prices = {gpu["name"]: gpu["used_usd"] for gpu in server.send("GET", "/api/choices").json["gpus"]}
    shown = page.run(_FACTS)["price of the cards"]
    assert _dollars(shown) == 2 * prices["RTX 3090"] + prices["RTX 4090"]
    assert "used" in shown


def test_a_check_on_a_phone_has_its_verdict_beside_its_name(page: Page) -> None:
    page.size(390)
    page.open(view="build", parts="4x RTX 4090", psu="1000")
    tops = page.run(
        "return [...document.querySelectorAll('.checks tbody tr')].filter((row) => row.checkVisibility())"
        ".map((row) => [row.cells[0].getBoundingClientRect(), row.querySelector('.mark').getBoundingClientRect()])"
        ".map(([name, mark]) => [name.top, name.bottom, mark.top, mark.left - name.left])"
    )
    assert len(tops) > 5
    assert all(top - 2 <= mark < bottom and right > 150 for top, bottom, mark, right in tops)


def test_the_plan_of_a_language_model_is_in_tokens(page: Page, server: Server) -> None:
    page.open(view="scale", model="gpt2-xl", nodes="1")
    answer = server.ask("plan", model="gpt2-xl", cluster="8xH100 SXM 80GB", mode="train").json
    best = answer["plans"][answer["recommended"] or 0]
    shown = float(page.run(_FACTS)["tokens per second"].split()[0].replace(",", ""))
    assert shown == pytest.approx(best["samples_per_s"] * answer["seq"], rel=0.01)
    page.until("return document.querySelector('.pick').textContent.includes('times as fast as')")
    assert len(page.pick) < 60
    assert "for a million tokens when rented" in page.verdict


@pytest.mark.parametrize(("model", "unit"), [("resnet50", "images"), ("gpt2", "tokens"), ("bert-base", "samples")])
def test_training_is_shown_in_the_unit_of_the_model(page: Page, server: Server, model: str, unit: str) -> None:
    page.open(view="model", model=model, mode="train", gpu="RTX 4090")
    result = server.ask("predict", model=model, mode="train", gpu=["RTX 4090"]).json["results"][0]
    rate = result["samples_per_s"] * (result["seq"] if unit == "tokens" else 1)
    shown = page.run(_FACTS)[f"{unit} per second"].split()[0].replace(",", "")
    assert float(shown) == pytest.approx(rate, rel=0.01)
    assert page.run("return document.querySelector('.chart.growth').layout.yaxis.title.text") == f"{unit} per second"


def test_a_rented_card_has_its_price_per_hour_in_the_table(page: Page, server: Server) -> None:
    page.open(task="learning", kind="rent")
    rents = {gpu["name"]: gpu["rent_usd_per_hour"] for gpu in server.send("GET", "/api/choices").json["gpus"]}
    rows = page.run(
        "return [...document.querySelectorAll('.grid tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))"
    )
    assert rows
    for row in rows:
        assert row[4].endswith("/h")
        assert _dollars(row[4]) == pytest.approx(rents[row[0].splitlines()[0]], abs=0.006)


def test_months_and_architectures_of_the_catalogue_are_in_one_form(page: Page) -> None:
    page.open(view="gpus", find="a100")
    assert re.findall(r"\b\d{4}-\d{2}-\d{2}\b", page.text) == []
    assert re.search(r"\b[A-Z][a-z]{2} 20\d\d\b", page.text)
    page.open(view="compare", cards="RTX 3090,A100 PCIe 80GB", model="resnet50")
    assert "Ampere (GA100)" in page.text
    assert "Sep 2020" in page.text


def test_the_overview_of_a_timeline_moves_what_is_shown(page: Page) -> None:
    page.open(view="why")
    page.run("sessionStorage.clear()")
    page.open(view="why")
    page.run("document.getElementById('sample').click()")
    page.until("return document.querySelector('.timeline .span')")
    frame = "return ['x', 'width'].map((name) => Number(document.querySelector('.overview .seen').getAttribute(name)))"
    whole = page.run(frame)
    for _ in range(2):
        page.run("document.querySelector('[aria-label=\"Zoom in\"]').click()")
    near = page.run(frame)
    assert near[1] == pytest.approx(whole[1] / 4, rel=0.05)
    page.run(
        "const node = document.querySelector('.overview'); const box = node.getBoundingClientRect();"
        "node.dispatchEvent(new PointerEvent('pointerdown', { clientX: box.right - 5, bubbles: true }))"
    )
    moved = page.run(frame)
    assert moved[0] > near[0]
    assert sum(moved) == pytest.approx(sum(whole), abs=3)  # it stops at the end of the step
    assert page.run("return document.querySelector('.timeline .tick').textContent") != "0 ms"


def test_no_share_of_use_is_listed_twice(page: Page) -> None:
    page.open(view="rent", gpu="RTX 4090", hours="100")
    shares = page.run(
        "return [...document.querySelectorAll('main .card:last-child tbody tr')].map((row) => row.cells[0].innerText)"
    )
    assert "100 (60%)" in shares
    assert len(shares) == len(set(shares))


def test_a_table_of_cards_keeps_the_names_of_its_columns_on_a_phone(page: Page, server: Server) -> None:
    cards = ["RTX 4090", "RTX A6000", "RTX 3090"]
    page.size(390)
    page.open(view="compare", model="bert-base", cards=",".join(cards))
    pair = server.ask("compare", names=cards, model=["bert-base"]).json["pairs"][0]
    cells = page.run(
        "return Object.fromEntries([...document.querySelector('table.cards tbody tr').cells].slice(1)"
        ".map((cell) => [cell.dataset.label, cell.innerText]))"
    )
    assert cells["times as fast"] == f"{pair['ratio']:.2f}"
    assert cells["range"] == f"{pair['ratio_low']:.2f} – {pair['ratio_high']:.2f}"
    assert cells["why"].lower() == pair["why"].lower().replace("limited by memory;", "limited by memory bandwidth;")
