"""What kWh cost, flat or in tiers that rise with use."""

from __future__ import annotations

import math

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Basis
from gpuwise.money.checks import amount, number
from gpuwise.money.types import MONTHS_PER_YEAR, Electricity, Tariff

__all__ = ["bill_usd", "electricity_usd", "flat", "of_bills", "of_region", "parse_bills", "parse_tariff"]

_TIERS = 'write tiers as kWh a month and price per kWh, such as `--tariff "200=0.0996,600=0.437"`'
_BILLS = 'write monthly bills as kWh and amount, such as `--bills "200=19.92,600=194.7"`'


def flat(usd_per_kwh: float, *, basis: Basis = Basis.GIVEN, source: str = "") -> Tariff:
    """Every kWh costs the same."""
    rate = amount(usd_per_kwh, "an electricity price", "for example `--kwh-price 0.12`", zero=True)
    return Tariff(tiers=((math.inf, rate),), basis=basis, source=source)


def of_region(electricity: Electricity) -> Tariff:
    """The average household price of a region."""
    source = f"{electricity.region}, households, {electricity.year}: {electricity.source}"
    return flat(electricity.usd_per_kwh, basis=electricity.basis, source=source)


def of_bills(bills: tuple[tuple[float, float], ...], household_kwh_per_month: float = 0.0) -> Tariff:
    """The tiers that two or more monthly bills (kWh, USD) give away: what a kWh between two of them costs.

    >>> round(of_bills(((200, 19.92), (600, 194.7))).tiers[1][1], 3)
    0.437
    """
    tiers, kwh, usd = [], 0.0, 0.0
    for upper, bill in bills:
        if bill < usd:
            raise BadValue(f"a bill of {bill:g} for {upper:g} kWh is below that of {kwh:g} kWh", hint=_BILLS)
        tiers.append((upper, (bill - usd) / (upper - kwh)))
        kwh, usd = upper, bill
    return Tariff(tiers=tuple(tiers), household_kwh_per_month=household_kwh_per_month)


def parse_bills(text: str, *, household_kwh_per_month: float = 0.0, usd_per_unit: float = 1.0) -> Tariff:
    """`200=19.92,600=194.7`: what months of 200 and of 600 kWh cost."""
    bills = tuple((kwh, bill * usd_per_unit) for kwh, bill in _pairs(text, _BILLS))
    return of_bills(bills, _household(household_kwh_per_month))


def parse_tariff(text: str, *, household_kwh_per_month: float = 0.0, usd_per_unit: float = 1.0) -> Tariff:
    """`200=0.0996,600=0.437`: the first 200 kWh of a month at one rate, up to 600 and beyond at the other."""
    tiers = tuple((kwh, rate * usd_per_unit) for kwh, rate in _pairs(text, _TIERS))
    return Tariff(tiers=tiers, household_kwh_per_month=_household(household_kwh_per_month))


def _household(kwh: float) -> float:
    return amount(kwh, "a household's use", "for example `--household-kwh 300`", zero=True)


def _pairs(text: str, hint: str) -> list[tuple[float, float]]:
    pairs: list[tuple[float, float]] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        upper, equals, value = entry.partition("=")
        if not equals:
            raise BadValue(f"'{entry}' is not a pair of kWh and price", hint=hint)
        kwh = amount(number(upper, "a number of kWh", hint), "a number of kWh", hint)
        if pairs and kwh <= pairs[-1][0]:
            raise BadValue(f"{kwh:g} kWh comes after {pairs[-1][0]:g} kWh: tiers must rise", hint=hint)
        pairs.append((kwh, amount(number(value, "a price", hint), "a price", hint, zero=True)))
    if not pairs:
        raise BadValue(f"'{text}' has no tiers", hint=hint)
    return pairs


def bill_usd(tariff: Tariff, kwh: float) -> float:
    """What this many kWh in one month cost, from the first on."""
    total, lower = 0.0, 0.0
    for place, (upper, rate) in enumerate(tariff.tiers):
        last = place == len(tariff.tiers) - 1
        total += max(0.0, (kwh if last else min(kwh, upper)) - lower) * rate
        lower = upper
    return total


def electricity_usd(tariff: Tariff, kwh: float, years: float) -> float:
    """What kWh spread evenly over years add to the bill of a household."""
    months = MONTHS_PER_YEAR * years
    base = tariff.household_kwh_per_month
    return months * (bill_usd(tariff, base + kwh / months) - bill_usd(tariff, base))
