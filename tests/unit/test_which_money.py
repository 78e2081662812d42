"""What `gpuwise which` says of costs and prices, and what it answers where the money or the time is not enough."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from which_asked import asked, told

from gpuwise.advise.choosing import shortfall
from gpuwise.money import prices as money_prices
from gpuwise.questions.which.answer import choose
from gpuwise.questions.which.ask import ask
from gpuwise.questions.which.options import WhichOptions


@pytest.fixture(autouse=True)
def _a_given_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(money_prices, "today", lambda: date(2026, 11, 16))


@pytest.mark.parametrize(
    "question",
    [
        {"model": ["resnet50"]},
        {"model": ["llama-2-7b"]},
        {"model": ["llama-2-7b"], "mode": "train"},
        {"model": ["llama-2-13b"], "mode": "train"},
        {"model": ["resnet50"], "hours_per_week": 2.0},
        {"model": ["resnet50"], "hours_per_week": 60.0},
        {"model": ["resnet50"], "have": ["RTX 3090"]},
        {"model": ["resnet50"], "deadline": "10min"},
        {"task": "llm-finetune"},
        {},
    ],
)
def test_what_the_verdict_says_of_costs_holds_against_every_row(question: dict[str, Any]) -> None:
    found = choose(ask(WhichOptions(**question), today=date(2026, 11, 16)))
    limits = found.query.limits
    able = [one for one in found.every if one.usd_per_run is not None and not shortfall(one, limits)]
    sold = [one for one in able if one.kind.startswith("buy")]
    named = found.best if found.best else min(found.options, key=lambda one: one.usd_per_run or 0.0)
    own = named.usd_per_run or 0.0
    assert "over the years" not in found.verdict
    if "of all single cards on sale" in found.verdict and named.kind != "keep":
        assert own == min(one.usd_per_run or 0.0 for one in sold if one.gpu_count == 1)
    if "of all cards on sale" in found.verdict and named.kind != "keep":
        assert own == min(one.usd_per_run or 0.0 for one in sold)
    if "on any card on sale" in found.verdict:
        assert own < 0.5 * min(one.usd_per_run or 0.0 for one in sold)
    rents = [one for one in able if one.kind == "rent" and (one.usd_per_run or 0.0) < 0.99 * own]
    if named.kind.startswith("buy"):
        assert ("Renting" in found.verdict) == bool(rents)


@pytest.mark.parametrize(
    "arguments",
    [(), ("--machine", "450", "--kwh-price", "0.31"), ("--rent",), ("--have", "RTX 3090"), ("--tariff", "200=0.10,600=0.44")],
)
def test_the_parts_of_the_whole_cost_are_told_and_add_up(arguments: tuple[str, ...]) -> None:
    answer = asked("--model", "resnet50", *arguments)
    for option in answer["options"]:
        gpus = option["gpu_count"] * (option["price"] or {}).get("usd", 0.0)
        assert gpus + option["machine_usd"] + option["running_usd"] == pytest.approx(option["total_usd"])
        if option["source"] != "rent":
            assert option["usd_per_kwh"] * option["energy_kwh"] == pytest.approx(option["running_usd"])
    text = told("--model", "resnet50", *arguments)
    assert re.search(r"How the total adds up: 3 years of [^=]* = \$[\d,]+", text)
    if "450" in arguments:
        assert "$450 for the rest of the machine + " in text
        assert " kWh x $0.310 = " in text


def test_everything_is_told_in_the_users_currency() -> None:
    text = told(
        "--task", "vision", "--budget", "1500", "--currency", "EUR=1.08", "--tariff", "200=0.10,600=0.44", "--region", "DE"
    )
    assert "$" not in text
    assert "EUR" in text


def test_json_stays_in_dollars() -> None:
    euros, dollars = asked("--budget", "800", "--currency", "EUR=1.25"), asked("--budget", "1000")
    assert [option["upfront_usd"] for option in euros["options"]] == [option["upfront_usd"] for option in dollars["options"]]


def test_an_own_price_counts_before_any_other() -> None:
    answer = asked("--budget", "800", "--price", "RTX 5090=790")
    assert answer["options"][0]["gpu"] == "RTX 5090"
    assert answer["options"][0]["price"]["kind"] == "given"


def test_a_machine_that_is_to_be_bought_too_counts_in_the_budget() -> None:
    with_it, without = asked("--budget", "1500", "--machine", "800"), asked("--budget", "1500")
    assert with_it["options"][0]["upfront_usd"] <= 1500
    assert with_it["options"][0]["run_s"] > without["options"][0]["run_s"]


# ---------------------------------------------------------------- nothing keeps to the limits: an answer


def test_nothing_within_the_budget_names_the_nearest_that_would_do() -> None:
    answer = asked("--budget", "100", "--task", "kaggle")
    assert answer["options"] == []
    assert answer["verdict"].startswith("No option costs $100 or less; the cheapest option that fits is an RTX 5050 for $249")
    assert answer["rejected"][0]["gpu"] == "RTX 5050"


def test_used_only_with_too_little_money_says_how_to_count_another_card() -> None:
    verdict = asked("--used", "--budget", "600")["verdict"]
    assert "RTX 3090 for $700" in verdict
    assert "--price" in verdict


def test_a_budget_for_things_without_a_price_says_so() -> None:
    verdict = asked("--laptop", "--budget", "1500")["verdict"]
    assert "inf" not in verdict
    assert "--price" in verdict


def test_nothing_in_time_names_the_fastest() -> None:
    assert "No option meets the deadline. Even the fastest" in asked("--model", "gpt2", "--deadline", "1 min")["verdict"]


def test_nothing_that_fits_says_what_is_needed() -> None:
    verdict = asked("--model", "llama-2-70b", "--mode", "train", "--buy", "--vendor", "intel")["verdict"]
    assert "Nothing fits" in verdict
    assert "GiB" in verdict


# ---------------------------------------------------------------- what is said of the others is so


@pytest.mark.parametrize(
    "question",
    [
        {"budget": 2500.0, "task": "nlp"},
        {"task": "rnn"},
        {"model": ["bert-large"], "have": ["4x RTX 2080 Ti"]},
        {"task": "nlp", "rent": True},
    ],
)
def test_every_reason_to_leave_an_option_out_is_true(question: dict[str, Any]) -> None:
    found = choose(ask(WhichOptions(**question), today=date(2026, 11, 16)))
    kinds = {"rent"} if question.get("rent") else {"buy new", "buy used"}
    every = {option.name: option for option in found.every if option.kind in kinds}
    held = 0
    for name, reason in found.rejected:
        if name not in every:  # a set that no usual machine carries
            continue
        if reason.startswith("slower and more expensive than ") and "renting" not in reason:
            one, other = every[name], every[reason.removeprefix("slower and more expensive than ").removeprefix("the ")]
            assert other.run.seconds <= one.run.seconds
            assert (other.total_usd or 0) <= (one.total_usd or 0)
            held += 1
        elif reason.endswith("over the budget"):
            assert (every[name].upfront_usd or 0) > question["budget"]
        elif "does not fit" in reason:
            assert not every[name].run.fits
    assert held
