"""What owning a GPU costs over years: price, its share of the machine, electricity while it works, less what it sells for.

energy = watts x utilisation x 8,760 h x years        (the machine is off when it does not work)
total  = price + machine + energy x tariff - resale
"""

from __future__ import annotations

from gpuwise.core.errors import BadValue
from gpuwise.money.checks import amount, fraction
from gpuwise.money.tariff import electricity_usd
from gpuwise.money.types import HOURS_PER_YEAR, Ownership, Tariff

__all__ = ["MACHINE_USD", "WEEK_HOURS", "own", "utilization_of"]

MACHINE_USD = 700.0  # a plain desktop without its GPU, assumed: the guide's 2,200 less an RTX 3090
WEEK_HOURS = 168.0


def utilization_of(hours_per_week: float) -> float:
    """Hours per week as a share of all hours."""
    hint = "for example `--hours-per-week 20`"
    amount(hours_per_week, "hours per week", hint, zero=True)
    if hours_per_week > WEEK_HOURS:
        raise BadValue(f"{hours_per_week:g} hours per week is more than a week has ({WEEK_HOURS:g})", hint=hint)
    return hours_per_week / WEEK_HOURS


def own(
    *,
    price_usd: float,
    watts: float,
    utilization: float,
    years: float,
    tariff: Tariff,
    machine_usd: float = 0.0,
    resale_usd: float = 0.0,
) -> Ownership:
    """The total cost, part by part. `price_usd` is of all GPUs together, `watts` of everything that runs while they work."""
    amount(price_usd, "a price", 'for example `--price "RTX 3090=700"`', zero=True)
    amount(machine_usd, "the price of the machine", "for example `--machine 700`", zero=True)
    amount(watts, "a power", "for example `--machine-watts 100`", zero=True)
    amount(years, "a horizon in years", "for example `--years 3`")
    amount(resale_usd, "a resale value", "for example `--resale 300`", zero=True)
    fraction(utilization, "a utilisation", "--utilization", "0.15")
    hours = HOURS_PER_YEAR * utilization * years
    energy_kwh = watts * hours / 1000
    return Ownership(
        gpu_usd=price_usd,
        machine_usd=machine_usd,
        watts=watts,
        utilization=utilization,
        years=years,
        hours=hours,
        energy_kwh=energy_kwh,
        electricity_usd=electricity_usd(tariff, energy_kwh, years),
        resale_usd=resale_usd,
    )
