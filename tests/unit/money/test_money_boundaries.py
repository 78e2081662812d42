"""Money and boxes by hand: what is added, what is taken off, and from where a line of `build` is no longer good."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwise.box.checks import check_build, thickness
from gpuwise.box.parts import find_board, find_platform, usual_box
from gpuwise.box.power import continuous_watts, efficiency, load_watts, peak_watts
from gpuwise.box.types import Box, Cards, CheckLine
from gpuwise.core.units import GIB
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.money.costs import flat, own, rent
from gpuwise.money.currency import Currency
from gpuwise.money.prices import age_text, is_stale
from gpuwise.money.tariffs import of_bills

NOW = date(2026, 11, 16)


def gpu(name: str) -> Gpu:
    return load_catalog().find(name).gpu


def line(card: Gpu, count: int, box: Box, check: str) -> CheckLine:
    return next(one for one in check_build(card, count, box) if one.check == check)


# ---------------------------------------------------------------- owning and renting


def test_a_year_of_owning_is_bought_run_and_sold() -> None:
    found = own(price_usd=700, machine_usd=800, watts=500, utilization=0.5, years=1, tariff=flat(0.2), resale_usd=300)
    assert found.energy_kwh == pytest.approx(0.5 * 365 * 24 * 0.5)
    assert found.total_usd == pytest.approx(700 + 800 + 2190 * 0.2 - 300)
    assert found.usd_per_hour == pytest.approx(found.total_usd / 4380)


def test_a_commitment_is_cheaper_an_hour_and_is_paid_non_stop() -> None:
    found = rent(2.0, 100, gpu_count=4, way="commitment", discount=0.4, years=1)
    assert found.usd_per_gpu_hour == pytest.approx(1.2)
    assert found.total_usd == pytest.approx(4 * 1.2 * 8760)
    assert rent(2.0, 100, gpu_count=4).total_usd == pytest.approx(800)


def test_bills_tell_what_a_kwh_between_them_costs() -> None:
    assert of_bills(((200, 20.0), (600, 180.0))).tiers == ((200, pytest.approx(0.1)), (600, pytest.approx(0.4)))


@given(st.floats(0.01, 100.0), st.integers(1000, 10**6))
def test_an_amount_is_shown_in_the_currency_it_was_given_in(usd_per_unit: float, amount: int) -> None:
    currency = Currency(code="EUR", usd_per_unit=usd_per_unit)
    assert currency.show(currency.to_usd(amount)) == f"{amount:,} EUR"


@pytest.mark.parametrize(("kind", "days"), [("new", 90), ("used", 90), ("rent", 120), ("launch", 180)])
def test_prices_are_warned_of_from_the_age_the_guide_states(kind: str, days: int) -> None:
    """docs/guides/cost.md, "Prices and their age"."""
    assert not is_stale(NOW - timedelta(days=days), kind, NOW)
    assert is_stale(NOW - timedelta(days=days + 1), kind, NOW)


@pytest.mark.parametrize(
    ("days", "says"),
    [
        (13, "less than two weeks old"),
        (14, "two weeks"),
        (59, "eight weeks"),
        (61, "two months"),
        (730, "24 months"),
        (1100, "three years"),
    ],
)
def test_an_age_is_told_as_people_say_it(days: int, says: str) -> None:
    assert age_text(NOW - timedelta(days=days), NOW).startswith(says)


# ---------------------------------------------------------------- boxes


def test_cards_peak_independently_so_four_spike_twice_as_high_as_one() -> None:
    """docs/guides/build.md: excesses add as a root of squares."""
    box = usual_box(4, 1600)
    one, four = ((Cards(gpu=gpu("RTX 3090"), count=count),) for count in (1, 4))
    assert peak_watts(one, box) - load_watts(one, box) == pytest.approx(350)
    assert peak_watts(four, box) - load_watts(four, box) == pytest.approx(2 * 350)


@pytest.mark.parametrize(("share", "verdict"), [(0.79, "pass"), (0.81, "tight"), (0.94, "tight"), (0.96, "fail")])
def test_a_supply_is_good_up_to_80_percent_and_fails_above_95(share: float, verdict: str) -> None:
    """docs/guides/build.md, the line `psu`."""
    box = replace(usual_box(1, 1000), psu_watts=1000.0, cpu_watts=100.0, rest_watts=1000 * share - 350 - 100)
    assert line(gpu("RTX 3090"), 1, box, "psu").verdict == verdict


@pytest.mark.parametrize(("share", "verdict"), [(0.89, "pass"), (0.91, "tight"), (0.99, "tight"), (1.01, "fail")])
def test_an_outlet_keeps_a_tenth_for_a_screen_or_a_lamp(share: float, verdict: str) -> None:
    box = replace(usual_box(1, None), psu_watts=100_000.0)  # so large that its efficiency no longer changes
    wall = share * continuous_watts(box.outlet)
    rest = wall * efficiency(box.psu_label, 0.0, box.outlet.volts) - 350 - box.cpu_watts
    found = line(gpu("RTX 3090"), 1, replace(box, rest_watts=rest), "outlet")
    assert found.value == pytest.approx(wall)
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("count", "lanes", "verdict"), [(1, 16, "pass"), (1, 4, "pass"), (2, 16, "pass"), (2, 8, "tight"), (4, 16, "tight")]
)
def test_several_cards_want_eight_lanes_each_and_one_alone_four(count: int, lanes: int, verdict: str) -> None:
    platform = replace(find_platform("X299"), slot_lanes=lanes, storage_lanes=16, smallest_split=4)
    box = replace(usual_box(count, None), platform=platform)
    assert line(gpu("RTX 3090"), count, box, "lanes").verdict == verdict


@pytest.mark.parametrize(("gib", "verdict"), [(48, "pass"), (47, "tight"), (12, "tight"), (11, "fail")])
def test_ram_is_good_from_all_memory_of_the_gpus_and_fails_below_half_of_the_largest(gib: int, verdict: str) -> None:
    box = replace(usual_box(2, None), ram_bytes=gib * GIB)
    assert line(gpu("RTX 3090"), 2, box, "ram").verdict == verdict


@pytest.mark.parametrize(("cores", "verdict"), [(2, "pass"), (1, "tight")])
def test_two_gpus_want_four_threads(cores: int, verdict: str) -> None:
    assert line(gpu("RTX 3090"), 2, replace(usual_box(2, None), core_count=cores), "cpu").verdict == verdict


@pytest.mark.parametrize(("watts", "plugs"), [(120.0, 2), (300.0, 2), (301.0, 3), (450.0, 3)])
def test_an_adapter_to_16_pins_takes_two_plugs_or_one_for_each_150_watts(watts: float, plugs: int) -> None:
    card = replace(gpu("RTX 4090"), tdp_watts=watts)
    assert line(card, 1, replace(usual_box(1, 1000), psu_watts=1000.0), "connectors").value == plugs


@pytest.mark.parametrize(("count", "verdict"), [(1, "pass"), (2, "tight"), (3, "fail")])
def test_of_open_cards_without_a_gap_the_one_in_the_middle_has_hot_air_on_both_sides(count: int, verdict: str) -> None:
    board = replace(find_board("ATX"), x16=count, spacing=2, slots=8)
    box = replace(usual_box(count, None), board=board, case_slots=8, cooler="open-air")
    card = replace(gpu("RTX 2070"), slots=2.0)
    assert line(card, count, box, "cooling").verdict == verdict


@pytest.mark.parametrize(("watts", "verdict"), [(299.0, "pass"), (301.0, "tight")])
def test_blowers_may_stand_beside_each_other_up_to_300_watts(watts: float, verdict: str) -> None:
    board = replace(find_board("ATX"), x16=2, spacing=2, slots=8)
    box = replace(usual_box(2, None), board=board, case_slots=8, cooler="blower")
    card = replace(gpu("RTX 2070"), slots=2.0, tdp_watts=watts)
    assert line(card, 2, box, "cooling").verdict == verdict


@pytest.mark.parametrize(
    ("slots", "cooler", "taken"), [(2.0, None, 2), (2.2, None, 3), (2.7, None, 3), (3.5, "blower", 2), (3.0, "water", 1)]
)
def test_a_card_takes_every_position_it_reaches_into(slots: float, cooler: str | None, taken: int) -> None:
    assert thickness(replace(gpu("RTX 3090"), slots=slots), cooler) == taken
