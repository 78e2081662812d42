"""Reads an electricity tariff from what a user knows: the tiers of a contract, or two monthly bills."""

from __future__ import annotations

from gpuwise.core.errors import BadValue
from gpuwise.money.costs import Tariff
from gpuwise.money.currency import amount, number

__all__ = ["of_bills", "parse_bills", "parse_tariff"]

_TIERS = 'write each tier as its upper limit in kWh per month and its price per kWh: `--tariff "200=0.0996,600=0.437"`'
_BILLS = 'write each monthly bill as its kWh and its amount: `--bills "200=19.92,600=194.7"`'


def of_bills(bills: tuple[tuple[float, float], ...], household_kwh_per_month: float = 0.0) -> Tariff:
    """Return the tiers implied by two or more monthly bills (kWh, USD): the price of a kWh between two of them.

    >>> round(of_bills(((200, 19.92), (600, 194.7))).tiers[1][1], 3)
    0.437
    """
    tiers, kwh, usd = [], 0.0, 0.0
    for upper, bill in bills:
        if bill < usd:
            raise BadValue(f"the bill for {upper:g} kWh ({bill:g}) is lower than the bill for {kwh:g} kWh", hint=_BILLS)
        tiers.append((upper, (bill - usd) / (upper - kwh)))
        kwh, usd = upper, bill
    return Tariff(tiers=tuple(tiers), household_kwh_per_month=household_kwh_per_month)


def parse_bills(text: str, *, household_kwh_per_month: float = 0.0, usd_per_unit: float = 1.0) -> Tariff:
    """Parse `200=19.92,600=194.7`, the bills for months of 200 and 600 kWh."""
    bills = tuple((kwh, bill * usd_per_unit) for kwh, bill in _pairs(text, _BILLS))
    return of_bills(bills, _household(household_kwh_per_month))


def parse_tariff(text: str, *, household_kwh_per_month: float = 0.0, usd_per_unit: float = 1.0) -> Tariff:
    """Parse `200=0.0996,600=0.437`: the first 200 kWh of a month at one rate, and the rest at the other."""
    tiers = tuple((kwh, rate * usd_per_unit) for kwh, rate in _pairs(text, _TIERS))
    return Tariff(tiers=tiers, household_kwh_per_month=_household(household_kwh_per_month))


def _household(kwh: float) -> float:
    return amount(kwh, "household electricity use", "try `--household-kwh 300`", zero=True)


def _pairs(text: str, hint: str) -> list[tuple[float, float]]:
    pairs: list[tuple[float, float]] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        upper, equals, value = entry.partition("=")
        if not equals:
            raise BadValue(f"'{entry}' is not a pair such as 200=0.0996", hint=hint)
        kwh = amount(number(upper, "a number of kWh", hint), "a number of kWh", hint)
        if pairs and kwh <= pairs[-1][0]:
            raise BadValue(f"{kwh:g} kWh follows {pairs[-1][0]:g} kWh, but the values must increase", hint=hint)
        pairs.append((kwh, amount(number(value, "a price", hint), "a price", hint, zero=True)))
    if not pairs:
        raise BadValue(f"'{text}' contains no tiers", hint=hint)
    return pairs
