"""The arithmetic of the best-known guide, with its slips corrected."""

from __future__ import annotations

import pytest

from gpuwise.money.costs import bill_usd, break_even_days, electricity_usd, flat, own, rent
from gpuwise.money.tariffs import of_bills, parse_tariff

ELECTRICITY = 0.450 * 0.12  # USD an hour: 350 W and 100 W of machine


def test_a_desktop_at_15_percent_uses_591_kwh_and_71_dollars_a_year() -> None:
    found = own(price_usd=1500, machine_usd=700, watts=350 + 100, utilization=0.15, years=1, tariff=flat(0.12))
    assert found.energy_kwh == pytest.approx(591, abs=0.5)
    assert found.electricity_usd == pytest.approx(71, abs=0.05)
    assert found.upfront_usd == 2200


@pytest.mark.parametrize(("utilization", "days"), [(0.15, 293), (0.05, 879), (1.0, 44)])
def test_break_even_against_2_14_an_hour(utilization: float, days: float) -> None:
    found = break_even_days(2200, 2.14, utilization, ELECTRICITY)
    assert found == pytest.approx(days, abs=0.5)


def test_break_even_without_electricity_is_shorter() -> None:
    assert break_even_days(2200, 2.14, 0.15) == pytest.approx(285.6, abs=0.05)


def test_a_4090_costs_103_dollars_a_year() -> None:
    found = own(price_usd=1599, watts=450, utilization=0.15, years=1, tariff=flat(0.175))
    assert found.electricity_usd == pytest.approx(103, abs=0.6)


def test_korean_tiers_make_a_kwh_cost_44_cents() -> None:
    tariff = of_bills(((200, 19.92), (600, 194.7)), household_kwh_per_month=200)
    assert tariff.tiers[1][1] == pytest.approx(0.437, abs=0.0005)
    assert electricity_usd(tariff, 12 * 400, years=1) == pytest.approx(12 * (194.7 - 19.92))
    assert bill_usd(tariff, 600) == pytest.approx(194.7)


def test_without_a_household_the_cheap_tier_comes_first() -> None:
    tariff = parse_tariff("200=0.0996,600=0.43695")
    assert electricity_usd(tariff, 12 * 200, years=1) == pytest.approx(12 * 19.92)


def test_a_p100_for_a_week_non_stop_costs_250_32() -> None:
    assert rent(1.49, 168).total_usd == pytest.approx(250.32)


def test_a_commitment_pays_for_hours_that_are_not_used() -> None:
    found = rent(2.0, 876, way="commitment", discount=0.4, years=1)
    assert found.total_usd == pytest.approx(2.0 * 0.6 * 8760)
    assert found.usd_per_hour == pytest.approx(12.0)
