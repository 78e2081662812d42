"""What `which` says besides its recommendation: for labs, rent within a budget, laptops, and the cheapest way to generate
text.
"""

from __future__ import annotations

import itertools
from datetime import date
from pathlib import Path

import pytest

import gpuwise
from gpuwise.advise.choosing import CLEARLY_CHEAPER, NEARLY, shortfall
from gpuwise.core.text import a
from gpuwise.money import prices as money_prices


@pytest.fixture(autouse=True)
def _a_given_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_DATA", str(tmp_path))
    monkeypatch.setattr(money_prices, "today", lambda: date(2026, 11, 16))


@pytest.mark.parametrize("budget", ["1100", "3000", "6000"])
def test_rent_within_a_budget_is_the_fastest_or_nearly_so_and_clearly_cheaper(budget: str) -> None:
    answer = gpuwise.which(budget=budget, rent=True)
    best = answer.best
    assert best is not None
    assert best.kind == "rent"
    able = [one for one in answer.every if one.kind == "rent" and not shortfall(one, answer.query.limits)]
    fastest = min(able, key=lambda one: one.run.seconds)
    nearly = fastest.run.seconds >= NEARLY * best.run.seconds
    assert best is fastest or (nearly and (best.total_usd or 0) <= CLEARLY_CHEAPER * (fastest.total_usd or 0))
    assert "within the budget" in answer.verdict


def test_more_money_never_rents_a_slower_gpu() -> None:
    found = [gpuwise.which(budget=budget, rent=True).best for budget in ("1100", "3000", "9000")]
    seconds = [one.run.seconds for one in found if one is not None]
    assert len(seconds) == 3
    assert all(NEARLY * later <= earlier for earlier, later in itertools.pairwise(seconds))
    assert seconds[-1] < seconds[0]


def test_a_lab_is_told_what_to_take_for_larger_models() -> None:
    answer = gpuwise.which(budget="50000")
    assert answer.best is not None
    (said,) = (text for text in answer.changes_if if text.startswith("for models that need more than"))
    assert f"more than {answer.best.run.paces[0].usable_bytes / 2**30:.0f} GiB on one GPU" in said
    assert "GB each)" in said
    assert not any("on one GPU, take" in text for text in gpuwise.which(budget="800").changes_if)


def test_a_laptop_gpu_has_a_laptop_cpu() -> None:
    answer = gpuwise.which(laptop=True, budget="2000")
    (note,) = (note for note in answer.assumptions if note.name == "cpu")
    assert note.value.startswith("laptop")
    assert "no faster laptop" in answer.verdict


def test_the_cheapest_option_for_text_is_named_where_it_costs_far_less() -> None:
    answer = gpuwise.which(model=["gpt-oss-20b"])
    able = [one for one in answer.every if one.kind.startswith("buy") and one.run.fits and one.upfront_usd is not None]
    least = min(able, key=lambda one: one.upfront_usd or 0.0)
    held = "The cheapest NVIDIA option that has enough memory and works in a typical machine is"
    assert f"{held} {least.name} (${least.upfront_usd:,.0f})" in answer.verdict
    every = gpuwise.which(model=["gpt-oss-20b"], vendor="any")
    able = [one for one in every.every if one.kind.startswith("buy") and one.run.fits and one.upfront_usd is not None]
    other = min(able, key=lambda one: one.upfront_usd or 0.0)
    assert other.gpu.vendor != "NVIDIA"
    assert f"the cheapest from any vendor (`--vendor any`) is {a(other.name)} (${other.upfront_usd:,.0f})" in answer.verdict
    assert "NVIDIA option" not in every.verdict


def test_the_command_beside_it_uses_the_same_engine_and_gives_the_same_speed() -> None:
    answer = gpuwise.which(model=["gpt-oss-20b"])
    assert answer.best is not None
    assert " tokens/s (" in answer.verdict
    assert ") in llama.cpp" in answer.verdict
    assert '`gpuwise fit gpt-oss-20b --gpu "RTX 3090" --engine llama.cpp`' in answer.verdict
    told = gpuwise.predict("gpt-oss-20b", gpu=answer.best.gpu.name, engine="llama.cpp").to_dict()["results"][0]
    assert told["rate"] == pytest.approx(answer.best.run.samples_per_s, rel=0.01)


def test_a_budget_too_small_for_all_years_of_rent_says_so() -> None:
    verdict = gpuwise.which(model=["gpt-oss-120b"], budget="3000", hours_per_week=20).verdict
    assert verdict.startswith("Neither a purchase nor 3 years of rent at 20 hours a week costs $3,000 or less")
    assert "the cheapest to buy is" in verdict


def test_a_lab_is_told_what_a_run_is_and_what_is_sold_new() -> None:
    answer = gpuwise.which(budget="50000")
    jobs = [job.model for job in answer.query.jobs]
    assert f" A run trains {jobs[0]}, {jobs[1]} and {jobs[2]}; " in answer.verdict
    new = gpuwise.which(budget="50000", buy=True).best
    assert new is not None
    assert f"The best option sold new (`--buy`) is {new.name} (${new.upfront_usd:,.0f}, " in answer.verdict
    assert "What would change this:" in str(answer)
    assert "A run trains" not in gpuwise.which(budget="800").verdict
    assert "sold new" not in gpuwise.which(budget="50000", used=True).verdict


def test_who_is_told_to_buy_a_used_card_is_told_what_is_sold_new() -> None:
    answer = gpuwise.which(budget="800")
    assert answer.best is not None
    assert answer.best.kind == "buy used"
    new = gpuwise.which(budget="800", buy=True).best
    assert new is not None
    assert f"The best option sold new (`--buy`) is an {new.name} (${new.upfront_usd:,.0f}, " in answer.verdict
    assert "sold new" not in gpuwise.which(budget="800", used=True).verdict
    assert "sold new" not in gpuwise.which(budget="800", buy=True).verdict


def test_a_slight_power_limit_keeps_a_set_within_the_outlet() -> None:
    here, there = gpuwise.which(budget="10000"), gpuwise.which(budget="10000", region="DE")
    assert here.best is not None
    assert there.best is not None
    assert here.best.name == there.best.name == "2x RTX 5090"
    assert "Limit each card to 540 W, which costs hardly any speed" in here.verdict
    assert "Limit each" not in there.verdict


def test_the_speed_for_each_of_several_users_is_given() -> None:
    answer = gpuwise.which(model=["llama-3-8b"], users=10)
    assert answer.best is not None
    assert f"{answer.best.run.samples_per_s / 10:.3g} for each of 10 users" in answer.verdict
