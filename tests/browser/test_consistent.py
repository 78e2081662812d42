"""One answer on one page: two places that show the same figure agree, and what a figure is compared with is what it says."""

from __future__ import annotations

import re

import pytest
from pages import Page

from serving import Server

pytestmark = pytest.mark.slow

_GIB = 2**30


def _fact(page: Page, title: str) -> str:
    found = page.run(
        "const all = [...document.querySelectorAll('main dt')];"
        "return all.find((one) => one.textContent === arguments[0])?.parentElement.innerText",
        title,
    )
    assert found, f"no figure is called {title!r}"
    return str(found)


@pytest.mark.parametrize("case", [{"budget": "1500", "model": "resnet50"}, {"budget": "800"}])
def test_a_rent_is_more_than_the_budget_only_if_its_figure_is(page: Page, case: dict[str, str]) -> None:
    page.open(**case)
    said = _fact(page, "3-year rent")
    first, *others = [float(usd.replace(",", "")) for usd in re.findall(r"\$([\d,]+)", said)]
    budget = float(case["budget"])
    over = "which has to cover all of the rent" in said
    assert over == (first > budget)
    assert ("which is more than your budget" in said) == (not over and others[-1] > budget)


def test_the_costs_in_the_chart_say_for_which_use_they_are(page: Page) -> None:
    page.open(hours="40", years="2")
    page.until("return document.querySelector('.chart').data")
    assert page.run("return document.querySelector('.chart').layout.xaxis.title.text") == (
        "cost of 40 hours a week for 2 years, in US dollars"
    )


def test_a_set_that_is_as_fast_for_less_is_told_why_it_is_not_recommended(page: Page, server: Server) -> None:
    page.open(budget="1500", model="resnet50")
    options = server.ask("which", budget=1500, model=["resnet50"]).json["options"]
    best = next(option for option in options if option["recommended"])
    assert best["gpu_count"] == 1
    sets = [
        option
        for option in options
        if option["gpu_count"] > 1 and option["run_s"] <= best["run_s"] and option["upfront_usd"] <= best["upfront_usd"]
    ]
    assert sets
    said = page.run("return document.querySelector('.against').textContent")
    assert all(f"{option['gpu_count']}x {option['gpu']}" in said for option in sets)
    assert "your code has to use every card" in said


def test_the_users_model_has_one_ratio_in_headline_and_chart(page: Page, server: Server) -> None:
    names = ["RTX 3090", "RTX 4090"]
    page.open(view="compare", cards=",".join(names), model="bert-base")
    own = server.ask("compare", names=names, model=["bert-base"]).json["pairs"][0]
    assert f"{own['ratio']:.2f} times" in page.pick
    page.until("return document.querySelector('.chart').data")
    drawn = page.run(
        "const [one] = document.querySelector('.chart').data;"
        "return Object.fromEntries(one.y.map((name, at) => [name, one.x[at]]))"
    )
    assert drawn[f"transformer training (BERT-base), batch {own['batch']} (yours)"] == pytest.approx(own["ratio"])
    assert all("batch" in name for name in drawn)


def test_one_limit_of_memory_holds_for_bar_text_and_requests(page: Page, server: Server) -> None:
    page.open(view="model", model="llama-3-8b", gpu="RTX 4090")
    result = server.ask("predict", model="llama-3-8b", gpu=["RTX 4090"]).json["results"][0]
    usable, used = result["generation"]["usable_memory_bytes"], result["memory"]["total_bytes"]
    gpu = server.ask("gpus", names=["RTX 4090"]).json["gpus"][0]
    assert used < usable < gpu["usable_memory_bytes"]  # the engine leaves some of the memory to others
    limit = f"{usable / _GIB:.1f} GiB usable"
    assert limit in page.verdict
    assert limit in _fact(page, "memory")
    assert f"{limit} ({used / usable:.0%})" in page.text
    assert limit in page.run("return document.querySelector('.stack').getAttribute('aria-label')")


def test_a_card_that_does_not_hold_the_model_is_not_offered_for_sale(page: Page) -> None:
    page.open(view="model", model="llama-3-70b", gpu="RTX 4090")
    ways = page.run("return [...document.querySelectorAll('.verdict-card .ways a')].map((one) => one.textContent)")
    assert ways == ["Find a GPU that it fits on", "Compare"]


def test_the_scale_view_tells_its_baseline_and_the_cheapest_number(page: Page, server: Server) -> None:
    page.open(view="scale", model="llama-3-8b")
    page.until("return document.querySelector('.verdict').textContent.includes('for a million tokens when rented')")
    assert "Fewer than 2 GPUs cannot hold this model" in page.verdict
    cluster = "2x8xH100 SXM 80GB"
    known = [one for one in server.ask("plan", model="llama-3-8b", cluster=cluster).json["scaling"] if one["samples_per_s"]]
    cheapest = min(known, key=lambda one: one["gpu_count"] / one["samples_per_s"])["gpu_count"]
    assert f"It costs least on {cheapest} GPUs." in page.verdict
    assert len(set(re.findall(r"\$0\.\d{3}\b", page.verdict))) == 2


def test_a_phone_shows_the_cost_per_run_that_the_verdict_is_about(page: Page, server: Server) -> None:
    page.size(390)
    page.open()
    best = next(option for option in server.ask("which").json["options"] if option["recommended"])
    assert "lowest cost per run" in page.verdict
    row = page.run("return document.querySelector('.options tr.best').innerText")
    assert f"${best['usd_per_run']:.2f} per run" in row
