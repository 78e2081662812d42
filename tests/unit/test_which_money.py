"""What `gpuwise which` says of costs and prices, and what it answers where the money or the time is not enough."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from which_asked import asked, told

import gpuwise
from gpuwise.advise.choosing import shortfall
from gpuwise.money import prices as money_prices
from gpuwise.money.costs import rent_below
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
    if "of all single cards for sale" in found.verdict and named.kind != "keep":
        assert own == min(one.usd_per_run or 0.0 for one in sold if one.gpu_count == 1)
    if "of all cards for sale" in found.verdict and named.kind != "keep":
        assert own == min(one.usd_per_run or 0.0 for one in sold)
    if named.kind == "rent" and (found_less := re.search(r"a run costs (\d+)% less than on an? (.*?), the card", found.verdict)):
        (bought,) = (one for one in sold if one.name == found_less[2])
        assert 1 - own / (bought.usd_per_run or 0.0) == pytest.approx(int(found_less[1]) / 100, abs=0.006)
        assert own < rent_below(bought.run.seconds / named.run.seconds) * (bought.usd_per_run or 0.0)
    rents = [one for one in able if one.kind == "rent" and (one.usd_per_run or 0.0) < 0.99 * own]
    if named.kind.startswith("buy"):
        assert ("Renting" in found.verdict) == bool(rents)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--machine", "450", "--kwh-price", "0.31", "--buy", "--used"),
        ("--rent",),
        ("--have", "RTX 3090"),
        ("--tariff", "200=0.10,600=0.44"),
    ],
)
def test_the_parts_of_the_whole_cost_are_told_and_add_up(arguments: tuple[str, ...]) -> None:
    answer = asked("--model", "resnet50", *arguments)
    for option in answer["options"]:
        gpus = (option["added_gpus"] or option["gpu_count"]) * (option["price"] or {}).get("usd", 0.0)
        paid = gpus + option["machine_usd"] + option["running_usd"]
        assert paid - option["resale_usd"] == pytest.approx(option["total_usd"])
        assert (option["resale_usd"] > 0) == option["source"].startswith("buy")
        if option["source"] != "rent":
            assert option["usd_per_kwh"] * option["energy_kwh"] == pytest.approx(option["running_usd"])
    text = told("--model", "resnet50", *arguments)
    assert re.search(r"How the total adds up: 3 years of [^=]* = \$[\d,]+", text)
    assert asked("--model", "resnet50", *arguments, "--resale", "0")["options"][0]["resale_usd"] == 0
    if "450" in arguments:
        assert "$450 for the rest of the machine + " in text
        assert re.search(r" kWh x \$0\.310 - \$[\d,]+ resale = ", text)


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
    answer = asked("--budget", "30", "--task", "kaggle")
    sold = [one for one in answer["looked_at"] if one["fits"] and one["source"] != "rent"]
    nearest = min(sold, key=lambda one: one["upfront_usd"])
    cheapest = f"the cheapest option that fits is a {nearest['gpu']} for ${nearest['upfront_usd']:.0f}"
    assert answer["verdict"].startswith(f"No option costs $30 or less; {cheapest}")
    assert [one["gpu"] for one in answer["options"]] == [nearest["gpu"]]  # what is named is in the table


def test_a_budget_for_things_without_a_price_says_so() -> None:
    verdict = asked("--laptop", "--vendor", "amd", "--budget", "1500")["verdict"]
    assert "inf" not in verdict
    assert "--price" in verdict


def test_nothing_in_time_names_the_fastest() -> None:
    assert "No option meets the deadline. Even the fastest" in asked("--model", "gpt2", "--deadline", "1 min")["verdict"]


def test_nothing_that_fits_says_what_is_needed() -> None:
    verdict = asked("--model", "llama-2-70b", "--mode", "train", "--buy", "--vendor", "intel", "--max-gpus", "1")["verdict"]
    assert "Nothing fits" in verdict
    assert "GiB" in verdict


# ---------------------------------------------------------------- more of what one has, servers, the outlet


def test_one_more_of_the_card_at_hand_is_an_option_and_costs_one_card() -> None:
    answer = asked("--have", "RTX 3090", "--budget", "1500")
    best = answer["options"][0]
    assert (best["gpu"], best["gpu_count"], best["added_gpus"]) == ("RTX 3090", 2, 1)
    assert answer["verdict"].startswith("Buy one more RTX 3090 ($")
    assert "together with yours, a run (" in answer["verdict"]
    supply = best["machine_usd"]
    assert 0 < supply < 200
    assert best["upfront_usd"] == pytest.approx(best["price"]["usd"] + supply)
    (kept,) = (one for one in answer["looked_at"] if one["source"] == "keep")
    assert 1.5 < kept["run_s"] / best["run_s"] < 2
    pairs = [one for one in answer["looked_at"] if one["gpu"] == "RTX 3090" and one["gpu_count"] == 2 and one["source"] != "rent"]
    assert sorted(one["upfront_usd"] for one in pairs) == pytest.approx(
        [best["upfront_usd"], best["upfront_usd"] + best["price"]["usd"]]
    )


def test_a_second_card_above_the_budget_is_told_with_what_is_missing() -> None:
    answer = asked("--have", "RTX 3090", "--budget", "1000")
    assert answer["verdict"].startswith("Keep your RTX 3090")
    more = min(one["upfront_usd"] for one in answer["looked_at"] if one["gpu"] == "RTX 3090" and one["added_gpus"])
    assert f"for ${more - 1000:,.0f} more than your budget, you could buy one more RTX 3090" in " ".join(answer["changes_if"])


@pytest.mark.parametrize("owned", ["GB10", "RTX 5070 Laptop", "H100 SXM 80GB"])
def test_whole_computers_and_modules_get_no_second_one(owned: str) -> None:
    answer = asked("--have", owned, "--budget", "20000")
    assert not any(one["added_gpus"] for one in answer["looked_at"])


def test_less_memory_than_at_hand_is_never_recommended() -> None:
    """Cards of 10 GB would be faster, but what runs on the user's card would no longer fit."""
    answer = asked("--have", "RTX 3090", "--budget", "1000")
    seen = [one for one in answer["looked_at"] if one["source"].startswith("buy") and not one["short_of"]]
    mine = answer["options"][0]
    assert mine["source"] == "keep"
    assert any(one["run_s"] < mine["run_s"] / 1.3 and one["memory_bytes"] < 24 * 2**30 for one in seen)


def test_a_card_at_hand_that_costs_less_per_run_is_kept_until_it_is_used_enough() -> None:
    def keeps(hours: float) -> Any:
        return choose(ask(WhichOptions(have=["GTX 1080 Ti"], hours_per_week=hours), today=date(2026, 11, 16)))

    seldom = keeps(5.0)
    assert seldom.best is not None
    assert seldom.best.kind == "keep"
    sold = [one for one in seldom.options if one.kind.startswith("buy") and one.gpu.memory_bytes >= seldom.best.gpu.memory_bytes]
    assert all((one.usd_per_run or 0.0) > (seldom.best.usd_per_run or 0.0) for one in sold)
    assert "a rented RTX A5000" in seldom.verdict
    (change,) = (text for text in seldom.changes_if if "lower cost per run" in text)
    hours = float(re.findall(r"above (\d+) hours of use a week", change)[0])
    assert [keeps(hours + off).best.kind for off in (-1, 1)] == ["keep", "buy used"]


def test_large_budgets_consider_servers_and_busy_ones() -> None:
    small, large = (asked("--budget", budget) for budget in ("9999", "300000"))
    assert not any(one["segment"] == "datacenter" and one["source"] != "rent" for one in small["looked_at"])
    servers = [one for one in large["looked_at"] if one["segment"] == "datacenter" and one["source"].startswith("buy")]
    assert {one["gpu_count"] for one in servers if one["gpu"] in ("H200", "H100 SXM 80GB", "B200")} == {8, 16}
    assert {one["gpu_count"] for one in servers if one["gpu"] == "H100 NVL 94GB"} == {1, 2, 3, 4, 8}
    best = large["options"][0]
    assert best["machine_usd"] >= 15_000
    assert best["upfront_usd"] == pytest.approx(best["gpu_count"] * best["price"]["usd"] + best["machine_usd"])
    notes = {note["name"]: note["value"] for note in large["assumptions"]}
    assert any("59" in value for value in notes.values())


def test_a_fleet_of_servers_is_told_with_its_power() -> None:
    verdict = asked("--budget", "2000000")["verdict"]
    (count,) = re.findall(r"^Buy (\d+)x ", verdict)
    (kilowatts,) = re.findall(r"The servers draw up to ([\d,.]+) kW", verdict)
    assert int(count) >= 16
    assert "servers and the network between them" in verdict
    assert 5 < float(kilowatts.replace(",", "")) / (int(count) / 8) < 20


def test_the_outlet_is_that_of_the_region() -> None:
    american, german = (asked("--budget", "5000", *more)["options"] for more in ((), ("--region", "DE")))
    for options, volts in ((american, "120V 15A"), (german, "230V 16A")):
        outlets = [line["text"] for option in options for line in option["build"] if line["check"] == "outlet"]
        assert outlets
        assert all(volts in text for text in outlets)


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


def test_which_and_cost_expect_the_same_resale_value() -> None:
    bought = [one for one in gpuwise.which(model="resnet50", budget=1500, buy=True).every if one.gpu_count == 1]
    new = [one for one in bought if one.kind == "buy new" and one.price is not None and one.price.kind == "new"]
    assert len(new) > 3
    for one in new:
        assert gpuwise.cost(gpu=one.gpu.name, new=True).query.resale_usd == pytest.approx(one.resale_usd)


@pytest.mark.parametrize("question", [{}, {"hours_per_week": 40.0}])
def test_a_rent_that_is_much_faster_for_no_more_money_is_mentioned(question: dict[str, Any]) -> None:
    found = choose(ask(WhichOptions(**question), today=date(2026, 11, 16)))
    named = found.best or min(found.options, key=lambda one: one.usd_per_run)
    rents = [one for one in found.every if one.kind == "rent" and one.gpu_count == 1 and one.run.fits]
    quick = [one for one in rents if one.usd_per_run <= named.usd_per_run and one.run.seconds * 1.5 <= named.run.seconds]
    if quick:
        fastest = min(quick, key=lambda one: one.run.seconds)
        assert re.search(rf"For the same work, renting an? {fastest.name} costs", found.verdict)
    else:
        assert "For the same work, renting" not in found.verdict
    assert quick or question  # the first case has such a rent
