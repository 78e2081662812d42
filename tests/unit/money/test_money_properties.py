"""What holds for any money: more work is never cheaper, more use pays back sooner."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuwise.money.costs import Tariff, bill_usd, break_even_days, break_even_utilization, electricity_usd, flat, own, rent

USD = st.floats(min_value=0.01, max_value=1e6)
SHARES = st.floats(min_value=0.0, max_value=1.0)
KWH = st.floats(min_value=0.0, max_value=1e6)


@st.composite
def tariffs(draw: st.DrawFn) -> Tariff:
    steps = draw(st.lists(st.floats(min_value=1, max_value=1e4), min_size=1, max_size=4))
    rates = draw(st.lists(st.floats(min_value=0, max_value=5), min_size=len(steps), max_size=len(steps)))
    ends = [sum(steps[: place + 1]) for place in range(len(steps))]
    return Tariff(tiers=tuple(zip(ends, rates, strict=True)), household_kwh_per_month=draw(st.floats(min_value=0, max_value=5e3)))


@given(tariffs(), KWH, KWH)
def test_more_energy_is_never_cheaper(tariff: Tariff, one: float, other: float) -> None:
    few, many = sorted((one, other))
    assert electricity_usd(tariff, few, 1.0) <= electricity_usd(tariff, many, 1.0) + 1e-6 * max(1.0, many)


@given(tariffs(), KWH)
def test_a_bill_lies_between_the_cheapest_and_the_dearest_rate(tariff: Tariff, kwh: float) -> None:
    rates = [rate for _, rate in tariff.tiers]
    assert kwh * min(rates) - 1e-6 * kwh <= bill_usd(tariff, kwh) <= kwh * max(rates) + 1e-6 * kwh + 1e-9


@given(USD, SHARES, SHARES, st.floats(min_value=0.1, max_value=10), tariffs())
def test_more_hours_never_cost_less(price: float, one: float, other: float, years: float, tariff: Tariff) -> None:
    low, high = sorted((one, other))
    little = own(price_usd=price, watts=450, utilization=low, years=years, tariff=tariff)
    much = own(price_usd=price, watts=450, utilization=high, years=years, tariff=tariff)
    assert little.total_usd <= much.total_usd * (1 + 1e-9) + 1e-6
    assert rent(price, little.hours).total_usd <= rent(price, much.hours).total_usd


@given(USD, USD, st.floats(min_value=0.001, max_value=1), st.floats(min_value=0.001, max_value=1))
def test_more_use_pays_back_sooner(upfront: float, hourly: float, one: float, other: float) -> None:
    low, high = sorted((one, other))
    late, soon = break_even_days(upfront, hourly, low), break_even_days(upfront, hourly, high)
    assert late is not None
    assert soon is not None
    assert soon <= late * (1 + 1e-12)


@given(USD, USD, st.floats(min_value=0.001, max_value=1), st.floats(min_value=0, max_value=2))
def test_electricity_never_brings_the_break_even_forward(upfront: float, hourly: float, share: float, power: float) -> None:
    free, paid = break_even_days(upfront, hourly, share), break_even_days(upfront, hourly, share, power)
    assert free is not None
    assert paid is None or paid >= free * (1 - 1e-12)
    assert (paid is None) == (power >= hourly)


@given(USD, USD, st.floats(min_value=0.1, max_value=10))
def test_at_the_break_even_utilisation_the_horizon_is_the_break_even(upfront: float, hourly: float, years: float) -> None:
    share = break_even_utilization(upfront, hourly, years)
    if share is not None and share > 0:
        days = break_even_days(upfront, hourly, share)
        assert days is not None
        assert abs(days / (365 * years) - 1) < 1e-9


def test_a_flat_tariff_is_flat() -> None:
    assert flat(0.12).is_flat
    assert not Tariff(tiers=((1.0, 0.1), (2.0, 0.2))).is_flat
