"""`gpuwise cost` and `gpuwise prices` with valid and invalid input."""

from __future__ import annotations

import json
import re
import sys
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import gpuwise
from gpuwise.advise.choosing import UserLimits, select
from gpuwise.core.errors import GpuwiseError
from gpuwise.hardware.catalog import load_catalog
from gpuwise.money import prices as money_prices
from gpuwise.money.costs import server_for
from gpuwise.money.estimates import remaining
from gpuwise.money.tables import refreshed_folder, refreshed_path
from gpuwise.questions.cost import words as cost_words
from gpuwise.questions.cost.figure import cost_figure
from gpuwise.render.svg import draw
from gpuwise.surfaces.cli.app import app

GUIDE = {"gpu": "RTX 3090", "price": "1500", "machine": 700.0, "cloud_price": 2.14, "kwh_price": 0.12, "utilization": 0.15}


@pytest.fixture(autouse=True)
def _a_given_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(money_prices, "today", lambda: date(2026, 11, 16))


def asked(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def refused(*arguments: str) -> GpuwiseError:
    result = CliRunner().invoke(app, list(arguments))
    assert isinstance(result.exception, GpuwiseError), result.exception
    assert result.exception.hint
    return result.exception


# ---------------------------------------------------------------- answers


def test_the_guides_break_even_comes_out_of_the_command() -> None:
    found = asked(
        "cost", "--gpu", "RTX 3090", "--price", "1500", "--machine", "700", "--cloud-price", "2.14", "--kwh-price", "0.12"
    )
    days = {row["utilization_fraction"]: row["days"] for row in found["break_even"]}
    assert [round(days[share]) for share in (0.05, 0.15, 1.0)] == [879, 293, 44]
    assert found["own"]["energy_kwh_per_year"] == pytest.approx(591, abs=0.5)
    assert found["own"]["electricity_usd_per_year"] == pytest.approx(71, abs=0.05)


def test_everything_that_was_not_said_is_listed() -> None:
    names = {entry["name"] for entry in asked("cost", "--gpu", "RTX 3090")["assumptions"]}
    assert names >= {
        "region",
        "price of RTX 3090",
        "rest of the machine",
        "utilisation",
        "horizon",
        "electricity",
        "rental price",
    }


def test_what_was_said_is_not_listed_as_assumed() -> None:
    said = ["--price", "700", "--machine", "0", "--machine-watts", "80", "--watts", "300", "--years", "2", "--region", "FR"]
    said += ["--resale", "0"]
    found = asked("cost", "--gpu", "RTX 3090", "--cloud-price", "1", "--kwh-price", "0.2", "--utilization", "0.2", *said)
    assert found["assumptions"] == []
    assert found["warnings"] == []
    assert found["own"]["power_watts"] == 380


def test_carbon_is_energy_times_the_grid_of_the_region() -> None:
    clean, dirty = (asked("cost", "--gpu", "RTX 3090", "--region", region) for region in ("Sweden", "Poland"))
    assert clean["co2e_kg"] == pytest.approx(clean["own"]["energy_kwh"] * clean["grid_kg_per_kwh"])
    assert dirty["co2e_kg"] > 10 * clean["co2e_kg"]


def test_json_stays_in_dollars_whatever_the_currency() -> None:
    dollars = asked("cost", "--gpu", "RTX 3090", "--price", "1080", "--kwh-price", "0.216")
    euros = asked("cost", "--gpu", "RTX 3090", "--price", "1000", "--kwh-price", "0.2", "--currency", "EUR=1.08")
    assert euros["own"]["total_usd"] == pytest.approx(dollars["own"]["total_usd"])


def test_a_used_card_has_its_own_dated_price() -> None:
    either, new, used = (asked("cost", "--gpu", "RTX 3090", *more) for more in ((), ("--new",), ("--used",)))
    assert (new["price"]["kind"], used["price"]["kind"]) == ("new", "used")
    assert used["price"]["usd"] < new["price"]["usd"]
    assert either["price"] == used["price"]
    assert "cannot be combined" in refused("cost", "--gpu", "RTX 3090", "--used", "--new").message
    assert "no dated price is known for a used" in refused("cost", "--gpu", "GTX 980 Ti", "--used").message


def test_an_estimated_price_is_told_as_one() -> None:
    found = asked("cost", "--gpu", "GTX 1080", "--cloud-price", "0.2")
    assert (found["price"]["kind"], found["price"]["basis"]) == ("used", "fitted")
    (note,) = (note for note in found["assumptions"] if note["code"] == "price")
    assert note["effect"].startswith("estimated used price in 2026-")


# ---------------------------------------------------------------- resale


def test_cards_are_sold_at_the_end_unless_the_user_says_otherwise() -> None:
    ask = ("cost", "--gpu", "RTX 3090", "--price", "800", "--gpus", "2")
    usual, none, some = (asked(*ask, *more) for more in ((), ("--resale", "0"), ("--resale", "300")))
    assert (none["own"]["resale_usd"], some["own"]["resale_usd"]) == (0, 300)
    assert usual["own"]["resale_usd"] == pytest.approx(2 * 800 * remaining(3.0, new=False))
    assert none["own"]["total_usd"] - usual["own"]["total_usd"] == pytest.approx(usual["own"]["resale_usd"])
    (note,) = (note for note in usual["assumptions"] if note["name"] == "resale")
    assert note["basis"] == "fitted"
    assert "after 3 years" in note["effect"]


def test_a_new_card_loses_more_than_a_used_one() -> None:
    new, used = (asked("cost", "--gpu", "RTX 3090", condition) for condition in ("--new", "--used"))
    share = [one["own"]["resale_usd"] / one["own"]["gpu_usd"] for one in (new, used)]
    assert share[1] == pytest.approx(remaining(3.0, new=False))
    assert share[0] <= remaining(3.0, new=True) < share[1]
    assert new["own"]["resale_usd"] <= used["own"]["resale_usd"]


def test_the_other_condition_is_told_with_its_own_break_even() -> None:
    used, new = (asked("cost", "--gpu", "RTX 3090", "--cloud-price", "2.14", *more) for more in ((), ("--new",)))
    for one, other in ((used, new), (new, used)):
        (told,) = one["other_prices"]
        (row,) = (row for row in other["break_even"] if row["utilization_fraction"] == 0.15)
        assert told["usd"] == other["price"]["usd"]
        assert told["break_even_days"] == pytest.approx(row["days_with_resale"])
    assert asked("cost", "--gpu", "RTX 3090", "--price", "700")["other_prices"] == []


def test_several_gpus_share_one_machine() -> None:
    one, four = (asked("cost", "--gpu", "RTX 3090", "--gpus", count, "--machine", "900") for count in ("1", "4"))
    assert four["own"]["upfront_usd"] == pytest.approx(4 * (one["own"]["upfront_usd"] - 900) + 900)
    assert four["own"]["power_watts"] == 4 * 350 + 100


def test_two_bills_price_the_gpu_on_top_of_the_household() -> None:
    bills = ["--bills", "200=19.92,600=194.7", "--household-kwh", "200"]
    found = asked("cost", "--gpu", "RTX 3090", "--hours-per-week", "40", *bills)
    assert found["own"]["electricity_usd"] / found["own"]["energy_kwh"] == pytest.approx(0.437, abs=0.0005)


@pytest.mark.parametrize("tariff", [["--kwh-price", "0.3"], ["--tariff", "100=0.05,200=0.4,500=0.6", "--household-kwh", "50"]])
def test_at_the_utilisation_where_owning_pays_both_cost_the_same(tariff: list[str]) -> None:
    ask = ["cost", "--gpu", "RTX 3090", "--price", "1500", "--cloud-price", "0.9", "--resale", "400", *tariff]
    share = asked(*ask)["break_even_utilization_fraction"]
    assert 0.05 < share < 0.5
    there = asked(*ask, "--utilization", str(share))
    (row,) = (row for row in there["break_even"] if row["utilization_fraction"] == share)
    assert row["own_usd"] == pytest.approx(row["rent_usd"], rel=1e-6)


def test_a_job_costs_its_hours() -> None:
    found = asked("cost", "--gpu", "RTX 3090", "--job-hours", "10", "--cloud-price", "2")
    assert found["job"]["rent_usd"] == pytest.approx(20)
    assert found["job"]["energy_kwh"] == pytest.approx(4.5)
    assert found["job"]["own_usd"] == pytest.approx(10 * found["own"]["usd_per_hour"])


def test_a_faster_rented_gpu_works_fewer_hours() -> None:
    job = ["--model", "resnet50", "--samples", "1e6", "--cloud-gpu", "H100 SXM 80GB"]
    found = asked("cost", "--gpu", "RTX 3090", *job)
    assert found["job"]["job_low_s"] < found["job"]["job_s"] < found["job"]["job_high_s"]
    assert found["job"]["rented_job_s"] < 0.7 * found["job"]["job_s"]
    assert found["rent"][0]["used_s"] < 0.7 * found["own"]["working_s"]


def test_typed_gpus_can_be_priced_with_a_model() -> None:
    typed = "name=Foo,arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s,tdp=200W"
    found = asked("cost", "--gpu", typed, "--price", "700", "--cloud-price", "1", "--model", "resnet50", "--samples", "1e6")
    assert found["job"]["rented_job_s"] == found["job"]["job_s"]
    both = asked("cost", "--gpu", "T4", "--cloud-gpu", typed, "--cloud-price", "1", "--model", "resnet50", "--samples", "1e6")
    assert both["job"]["rented_job_s"] < both["job"]["job_s"]


def test_a_job_that_does_not_fit_is_warned_of() -> None:
    found = asked("cost", "--gpu", "RTX 3090", "--model", "gpt2-xl", "--samples", "1e5", "--batch", "64")
    assert "does not fit on the RTX 3090 at batch 64" in found["warnings"][0]


def test_a_spot_price_is_what_owning_is_held_against_when_asked() -> None:
    plain, spot = (asked("cost", "--gpu", "L4", "--price", "2500", "--watts", "72", *more) for more in ((), ("--spot",)))
    assert spot["break_even"][0]["rent_usd"] < plain["break_even"][0]["rent_usd"]


def test_a_gpu_that_can_only_be_rented_is_answered() -> None:
    found = asked("cost", "--gpu", "GH200 96GB", "--hours-per-week", "10")
    assert found["own"] is None
    assert found["rent"][0]["total_usd"] > 0


def test_a_data_centre_gpu_is_owned_in_a_server_that_is_cooled() -> None:
    found = asked("cost", "--gpu", "H200", "--gpus", "8")
    assert found["own"]["machine_usd"] < server_for(load_catalog().find("H200").gpu).usd  # the cheapest price is of used GPUs
    new = asked("cost", "--gpu", "H200", "--gpus", "8", "--new")
    assert new["own"]["machine_usd"] == server_for(load_catalog().find("H200").gpu).usd
    assert found["own"]["power_watts"] == pytest.approx(1.5 * (8 * 700 + 4000))
    more = asked("cost", "--gpu", "H200", "--gpus", "9")
    assert more["own"]["machine_usd"] > 2 * found["own"]["machine_usd"]  # and a network


# ---------------------------------------------------------------- another GPU to rent, and the rule of renting


def test_another_gpu_to_rent_works_at_its_mean_speed_on_usual_models() -> None:
    ask = ("cost", "--gpu", "RTX 4090", "--cloud-gpu", "A100", "--years", "0.5")
    found = asked(*ask)
    speeds = []
    for model in ("resnet50", "bert-base"):
        job = asked(*ask, "--model", model, "--samples", "1e6")
        speeds.append(job["job"]["job_s"] / job["job"]["rented_job_s"])
        assert not any(note["name"] == "speed of the rented GPU" for note in job["assumptions"])
    speed = found["own"]["working_s"] / found["rent"][0]["used_s"]
    assert speed == pytest.approx((speeds[0] * speeds[1]) ** 0.5)
    assert speed > 1.2
    (note,) = (note for note in found["assumptions"] if note["name"] == "speed of the rented GPU")
    assert note["value"] == f"{speed:.2f} times that of the owned GPU"
    same = asked("cost", "--gpu", "RTX 4090", "--cloud-gpu", "RTX 4090")
    assert same["rent"][0]["used_s"] == same["own"]["working_s"]


@pytest.mark.parametrize("name", ["RTX 4090", "RTX 3090", "RTX 5090", "RTX A6000"])
@pytest.mark.parametrize(("hours", "years"), [(2.0, 3.0), (10.0, 1.0), (25.0, 3.0), (100.0, 2.0)])
def test_cost_recommends_renting_exactly_where_which_does(name: str, hours: float, years: float) -> None:
    told = gpuwise.cost(gpu=name, hours_per_week=hours, years=years)
    found = gpuwise.which(model=["resnet18"], hours_per_week=hours, years=years)
    alone = [one for one in found.every if one.gpu.name == name and one.gpu_count == 1]
    bought, hired = (next(one for one in alone if one.kind.startswith(kind)) for kind in ("buy", "rent"))
    assert told.here is not None
    assert told.here.own_usd == pytest.approx(bought.total_usd)
    assert told.here.rent_usd == pytest.approx(hired.total_usd)
    best = select([bought, hired], UserLimits()).best
    assert (best is hired) == cost_words.verdict(told).startswith("Renting is")


def test_a_verdict_that_clouds_turn_says_the_rent_at_which_it_turns() -> None:
    asked_for = {"gpu": "RTX 4090", "cloud_gpu": "A100", "years": 0.5}
    found = gpuwise.cost(**asked_for)
    assert found.verdict.startswith("Owning and renting cost about the same ($")
    turns = float(re.search(r"charges less than \$([\d.]+) an hour", found.verdict)[1])
    low, high = map(float, re.search(r"clouds charge \$([\d.]+) to \$([\d.]+)\)", found.verdict).groups())
    assert low < turns < high
    below, above = (gpuwise.cost(**asked_for, cloud_price=turns * factor).here for factor in (0.99, 1.01))
    assert below.rent_usd < below.own_usd
    assert above.rent_usd > above.own_usd


@pytest.mark.parametrize("hours", [2.0, 15.0, 19.0, 22.0, 25.0, 30.0, 35.0, 100.0])
def test_the_clouds_that_a_verdict_names_are_on_both_sides_of_its_rent(hours: float) -> None:
    found = gpuwise.cost(gpu="RTX 4090", hours_per_week=hours)
    low, high = found.market.low_usd_per_gpu_hour, found.market.high_usd_per_gpu_hour
    even = found.query.rent.usd_per_gpu_hour * found.here.own_usd / found.here.rent_usd
    turns = 0.75 * even if found.verdict.startswith("Renting saves only") else even
    assert ("clouds charge" in found.verdict) == (low < turns < high)


@pytest.mark.parametrize("options", [{}, {"cloud": "vast"}, {"cloud_price": 2.0}])
def test_the_range_that_clouds_ask_is_always_shown(options: dict[str, Any]) -> None:
    found = gpuwise.cost(gpu="RTX 3090", **options)
    row = next(line for line in str(found).splitlines() if line.startswith("  clouds "))
    assert f"${found.market.low_usd_per_gpu_hour:.2f} (" in row
    assert ("your price" in str(found)) == ("cloud_price" in options)


def test_both_answers_of_that_rule_occur() -> None:
    verdicts = [cost_words.verdict(gpuwise.cost(gpu="RTX 4090", hours_per_week=hours)) for hours in (2.0, 25.0, 30.0, 100.0)]
    assert verdicts[0].startswith("Renting is")
    assert verdicts[-1].startswith("Owning is")


def test_prices_have_dates() -> None:
    (row,) = asked("prices", "A100 SXM 80GB")["prices"]
    assert all(offer["dated"] >= "2026-01-01" for offer in row["offers"])
    assert len(asked("prices", "--regions")["regions"]) > 20
    assert len(asked("prices")["prices"]) > 50


@settings(max_examples=30, deadline=None)
@given(st.floats(min_value=0.01, max_value=1), st.floats(min_value=0.01, max_value=1))
def test_break_even_falls_with_use(one: float, other: float) -> None:
    low, high = sorted((one, other))
    late, soon = (gpuwise.cost(**{**GUIDE, "utilization": share}).here for share in (low, high))
    assert late is not None
    assert soon is not None
    assert (soon.days or 0) <= (late.days or 0) * (1 + 1e-9)
    assert late.own_usd <= soon.own_usd * (1 + 1e-9)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--utilization", "15"], "not a fraction between 0 and 1"),
        (["--price", "€700"], "is in EUR, but amounts must be in USD"),
        (["--utilization", "-0.1"], "between 0 and 1"),
        (["--utilization", "nan"], "between 0 and 1"),
        (["--hours-per-week", "200"], "more than the 168 hours in a week"),
        (["--hours-per-week", "nan"], "must be a finite number"),
        (["--utilization", "0.1", "--hours-per-week", "20"], "cannot be combined"),
        (["--years", "0"], "must be above zero"),
        (["--years", "21"], "is too long"),
        (["--years", "1e300"], "is too large"),
        (["--price", "0"], "must be above zero"),
        (["--price", "-700"], "must be above zero"),
        (["--price", "nan"], "must be a finite number"),
        (["--price", "cheap"], "is not a valid number"),
        (["--price", "RTX 4090=700"], "not for the RTX 3090"),
        (["--machine", "-1"], "must be zero or more"),
        (["--machine-watts", "-1"], "must be zero or more"),
        (["--watts", "0"], "must be above zero"),
        (["--gpus", "0"], "is out of range"),
        (["--gpu", "RTX 4090"], "one kind of GPU at a time"),
        (["--resale", "-1"], "must be zero or more"),
        (["--kwh-price", "-0.1"], "must be zero or more"),
        (["--kwh-price", "0.1", "--tariff", "200=0.1"], "cannot be combined"),
        (["--tariff", "cheap"], "not a pair"),
        (["--tariff", "200=x"], "is not a valid number"),
        (["--tariff", "600=0.1,200=0.2"], "must increase"),
        (["--tariff", ","], "contains no tiers"),
        (["--bills", "200=50,600=20"], "lower than the bill for"),
        (["--household-kwh", "100"], "works only with a tiered tariff"),
        (["--region", "Narnia"], "unknown region"),
        (["--currency", "EUX=1.1"], "unknown currency"),
        (["--currency", "EUR"], "the exchange rate for EUR is missing"),
        (["--cloud-price", "0"], "must be above zero"),
        (["--cloud-price", "2", "--cloud", "aws"], "sets the rent"),
        (["--cloud-price", "2", "--spot"], "sets the rent"),
        (["--cloud", "awz"], "does not offer the"),
        (["--cloud-gpu", "GTX 1080 Ti"], "no cloud in the price tables"),
        (["--spot"], "spot price"),
        (["--commit", "40"], "not a fraction between 0 and 1"),
        (["--job-hours", "0"], "must be above zero"),
        (["--job-hours", "1", "--samples", "5"], "already sets the job length"),
        (["--samples", "5"], "requires --model"),
        (["--model", "resnet50"], "the job size is missing"),
        (["--model", "resnet50", "--samples", "0"], "must be above zero"),
        (["--prices", "nothing.toml"], "cannot be read"),
        (["--figure", "cost.doc"], "does not have a supported figure file extension"),
    ],
)
def test_bad_questions_are_refused(options: list[str], message: str) -> None:
    assert message in refused("cost", "--gpu", "RTX 3090", *options).message


def test_other_bad_questions() -> None:
    assert "no GPU was given" in refused("cost").message
    assert "neither a purchase price nor a rental price" in refused("cost", "--gpu", "Tesla M2090").message
    assert "cannot be combined" in refused("prices", "T4", "--regions").message
    assert "takes no names" in refused("prices", "refresh", "T4").message


# ---------------------------------------------------------------- figure


def test_the_figure_carries_its_dates(tmp_path: Path) -> None:
    text = draw(cost_figure(gpuwise.cost(**GUIDE)))
    assert "293 days" in text
    assert "2026-08-22" in text
    result = CliRunner().invoke(app, ["cost", "--gpu", "RTX 3090", "--figure", str(tmp_path / "c.html")])
    assert result.exit_code == 0
    assert "own or rent?" in (tmp_path / "c.html").read_text(encoding="utf-8")


def test_a_figure_needs_both_ways() -> None:
    with pytest.raises(GpuwiseError, match="a purchase price, a rental price"):
        cost_figure(gpuwise.cost(gpu="GH200 96GB"))


# ---------------------------------------------------------------- refresh


def item(name: str, price: float, *, count: int = 1, memory: float | None = None, spot: bool = False) -> SimpleNamespace:
    return SimpleNamespace(provider="lambdalabs", gpu_name=name, gpu_memory=memory, gpu_count=count, price=price, spot=spot)


def hunting(items: list[SimpleNamespace] | Exception) -> SimpleNamespace:
    def query(**_: object) -> list[SimpleNamespace]:
        if isinstance(items, Exception):
            raise items
        return items

    return SimpleNamespace(Catalog=lambda **_: SimpleNamespace(load=lambda: None, query=query))


def test_refresh_writes_the_medians_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [
        item("H100", 24.0, count=8, memory=80),
        item("H100", 4.0, memory=80),
        item("H100", 8.0, count=8, memory=80, spot=True),
    ]
    items += [item("T4", 0.4), item("H100NVL", 3.0, memory=94), item("Unheard", 1.0), item("T4", 0.001), item("", 1.0)]
    monkeypatch.setitem(sys.modules, "gpuhunt", hunting(items))
    found = asked("prices", "refresh")
    assert (found["offers"], found["unknown"]) == (4, {"Unheard": 1})
    (row,) = asked("prices", "H100 PCIe 80GB")["prices"]
    mine = next(offer for offer in row["offers"] if offer["cloud"] == "lambda")
    assert (mine["usd_per_gpu_hour"], mine["spot_usd_per_gpu_hour"], mine["dated"]) == (3.5, 1.0, "2026-11-16")
    assert [path.name for path in refreshed_folder().iterdir()] == ["rental.csv"]


def test_refresh_without_a_network_leaves_all_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gpuhunt", hunting(OSError("no route to host")))
    assert "could not be downloaded: no route to host" in refused("prices", "refresh").message
    monkeypatch.setitem(sys.modules, "gpuhunt", hunting([]))
    assert "contain no known GPU" in refused("prices", "refresh").message
    assert not refreshed_path().exists()


def test_refresh_without_the_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gpuhunt", None)
    assert refused("prices", "refresh").hint == 'run `pip install "gpuwise[prices]"`'


@pytest.mark.parametrize("name", ["RTX 3090", "RTX 4090", "H100 PCIe 80GB", "A100 PCIe 80GB"])
@pytest.mark.parametrize("hours", [2.0, 15.0, 20.0, 25.0, 30.0, 60.0, 168.0])
def test_the_headline_never_says_more_than_the_verdict(name: str, hours: float) -> None:
    found = gpuwise.cost(gpu=name, hours_per_week=hours)
    own, rent = found.here.own_usd, found.here.rent_usd
    begins = {
        "own": "Owning is ",
        "rent": "Renting is ",
        "either": ("Owning and renting cost about the same", "Renting saves only "),
    }
    assert found.verdict.startswith(begins[found.better])
    assert found.to_dict()["better"] == found.better
    assert found.better != "own" or own < rent
    assert found.better != "rent" or rent < 0.75 * own


def test_all_three_headlines_occur() -> None:
    found = {gpuwise.cost(gpu="RTX 3090", hours_per_week=float(hours)).better for hours in range(2, 168, 4)}
    assert found == {"own", "rent", "either"}
