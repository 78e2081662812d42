"""The cost of using a GPU: electricity, owning or renting it over years, and the carbon dioxide from its energy.

energy     = watts x utilisation x 8,760 h x years        (the machine is off when idle)
total      = price + machine + energy x tariff - resale
break-even = upfront / (24 h x utilisation x (rent - electricity, per hour of work))
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.core.provenance import Basis
from gpuwise.core.text import either
from gpuwise.hardware.types import Gpu
from gpuwise.money.currency import amount, fraction, number
from gpuwise.money.tables import regions
from gpuwise.money.types import HOURS_PER_YEAR, MONTHS_PER_YEAR, Electricity, Grid, Region

__all__ = [
    "COOLING",
    "DEFAULT_REGION",
    "DESK_USE",
    "LAB_USD",
    "LAB_USE",
    "MACHINE_USD",
    "RENT_BELOW",
    "WEEK_HOURS",
    "Ownership",
    "Rental",
    "Server",
    "Tariff",
    "bill_usd",
    "break_even_days",
    "break_even_utilization",
    "electricity_usd",
    "emissions_kg",
    "find_region",
    "flat",
    "in_server",
    "is_cheaper_rented",
    "more_machine_usd",
    "of_bills",
    "of_region",
    "own",
    "parse_bills",
    "parse_tariff",
    "rent",
    "server_counts",
    "server_for",
    "utilization_of",
    "years_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """An electricity tariff: tiers of (kWh per month up to which a rate applies, USD per kWh); the last rate applies beyond.

    A household that already uses `household_kwh_per_month` pays for the GPU at the tiers above it.
    """

    tiers: tuple[tuple[float, float], ...]
    household_kwh_per_month: float = 0.0
    basis: Basis = Basis.GIVEN
    source: str = ""

    @property
    def is_flat(self) -> bool:
        """Whether every kWh costs the same."""
        return len({rate for _, rate in self.tiers}) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """The cost of owning over a horizon, itemised. `hours` are hours of work."""

    gpu_usd: float
    machine_usd: float
    watts: float
    utilization: float
    years: float
    hours: float
    energy_kwh: float
    electricity_usd: float
    resale_usd: float

    @property
    def upfront_usd(self) -> float:
        """Paid on the first day."""
        return self.gpu_usd + self.machine_usd

    @property
    def total_usd(self) -> float:
        """Paid in the end: bought, run, sold."""
        return self.upfront_usd + self.electricity_usd - self.resale_usd

    @property
    def usd_per_hour(self) -> float | None:
        """What an hour of work costs; None where there is none."""
        return self.total_usd / self.hours if self.hours else None

    @property
    def energy_kwh_per_year(self) -> float:
        """Electricity of an average year."""
        return self.energy_kwh / self.years

    @property
    def electricity_usd_per_year(self) -> float:
        """What that electricity costs."""
        return self.electricity_usd / self.years

    @property
    def electricity_usd_per_hour(self) -> float:
        """What an hour of work adds to the bill."""
        return self.electricity_usd / self.hours if self.hours else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rental:
    """The cost of renting: hours that are paid, at a rate, by a way of paying (on-demand, spot, commitment)."""

    way: str
    gpu_count: int
    usd_per_gpu_hour: float
    hours_used: float
    hours_paid: float

    @property
    def total_usd(self) -> float:
        """All GPUs, all paid hours."""
        return self.gpu_count * self.usd_per_gpu_hour * self.hours_paid

    @property
    def usd_per_hour(self) -> float | None:
        """What an hour of work costs, over all GPUs; None where there is none."""
        return self.total_usd / self.hours_used if self.hours_used else None


# ---------------------------------------------------------------- electricity, flat or in tiers that rise with use

_TIERS = 'write each tier as its upper limit in kWh per month and its price per kWh: `--tariff "200=0.0996,600=0.437"`'
_BILLS = 'write each monthly bill as its kWh and its amount: `--bills "200=19.92,600=194.7"`'


def flat(usd_per_kwh: float, *, basis: Basis = Basis.GIVEN, source: str = "") -> Tariff:
    """Every kWh costs the same."""
    rate = amount(usd_per_kwh, "an electricity price", "try `--kwh-price 0.12`", zero=True)
    return Tariff(tiers=((math.inf, rate),), basis=basis, source=source)


def of_region(electricity: Electricity) -> Tariff:
    """The average household price of a region."""
    source = f"household price in {electricity.region}, {electricity.year}: {electricity.source}"
    return flat(electricity.usd_per_kwh, basis=electricity.basis, source=source)


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
    """`200=19.92,600=194.7`: what months of 200 and of 600 kWh cost."""
    bills = tuple((kwh, bill * usd_per_unit) for kwh, bill in _pairs(text, _BILLS))
    return of_bills(bills, _household(household_kwh_per_month))


def parse_tariff(text: str, *, household_kwh_per_month: float = 0.0, usd_per_unit: float = 1.0) -> Tariff:
    """`200=0.0996,600=0.437`: the first 200 kWh of a month at one rate, up to 600 and beyond at the other."""
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


def bill_usd(tariff: Tariff, kwh: float) -> float:
    """Return the cost of this many kWh in one month, from the first one on."""
    total, lower = 0.0, 0.0
    for place, (upper, rate) in enumerate(tariff.tiers):
        last = place == len(tariff.tiers) - 1
        total += max(0.0, (kwh if last else min(kwh, upper)) - lower) * rate
        lower = upper
    return total


def electricity_usd(tariff: Tariff, kwh: float, years: float) -> float:
    """Return what kWh spread evenly over years add to a household's bill."""
    months = MONTHS_PER_YEAR * years
    base = tariff.household_kwh_per_month
    return months * (bill_usd(tariff, base + kwh / months) - bill_usd(tariff, base))


# ---------------------------------------------------------------- owning

MACHINE_USD = 700.0  # a plain desktop without its GPU, assumed: the guide's 2,200 minus an RTX 3090
# Extra cost of a machine for this many cards, assumed: a larger power supply, from three on a workstation, then a server.
_MORE_MACHINE_USD = ((1, 0.0), (2, 120.0), (4, 1500.0), (8, 5000.0))
WEEK_HOURS = 168.0
_MOST_YEARS = 20.0  # no GPU is useful for longer


def more_machine_usd(cards: int) -> float:
    """Return the extra cost of a machine for several cards over a plain desktop; more than eight need several machines."""
    (most, for_most) = _MORE_MACHINE_USD[-1]
    full = (cards - 1) // most
    return full * (MACHINE_USD + for_most) + next(usd for count, usd in _MORE_MACHINE_USD if cards - full * most <= count)


def utilization_of(hours_per_week: float) -> float:
    """Hours per week as a share of all hours."""
    hint = "try `--hours-per-week 20`"
    amount(hours_per_week, "the number of hours per week", hint, zero=True)
    if hours_per_week > WEEK_HOURS:
        raise BadValue(f"{hours_per_week:g} hours per week is more than the {WEEK_HOURS:g} hours in a week", hint=hint)
    return hours_per_week / WEEK_HOURS


def years_of(value: float) -> float:
    """Return the number of years; more than any GPU is used for must be a mistake."""
    hint = "try `--years 3`"
    if amount(value, "the number of years", hint) > _MOST_YEARS:
        raise BadValue(f"--years {value:g} is too long; the maximum is {_MOST_YEARS:g}", hint=hint)
    return value


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
    """Return the total cost, itemised. `price_usd` is for all GPUs together, `watts` for everything that runs while they work."""
    amount(price_usd, "a price", 'try `--price "RTX 3090=700"`', zero=True)
    amount(machine_usd, "the machine price", "try `--machine 700`", zero=True)
    amount(watts, "a power", "try `--machine-watts 100`", zero=True)
    years_of(years)
    amount(resale_usd, "a resale value", "try `--resale 300`", zero=True)
    fraction(utilization, "the utilization", "--utilization", "0.15")
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


# ---------------------------------------------------------------- servers with data-centre GPUs: what a laboratory buys
# Modules are sold on boards of eight, cards individually. Prices and watts of servers without GPUs are stated defaults.

LAB_USD = 10_000.0  # a budget from which servers are considered, assumed
DESK_USE, LAB_USE = 0.15, 0.35  # of all hours: a busy desktop, a shared cluster (a guide to GPUs for deep learning, 2023)
COOLING = 0.5  # relative to the machines' power: the average data centre, Uptime Institute's survey of 2024 (PUE 1.56)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server without its GPUs."""

    title: str
    usd: float
    watts: float
    most_gpus: int


_FOR_CARDS = Server(title="a server for eight PCIe cards", usd=15_000.0, watts=800.0, most_gpus=8)  # two CPUs, 512 GB, assumed
_FOR_MODULES = Server(title="a server for eight modules", usd=60_000.0, watts=4_000.0, most_gpus=8)  # a DGX H100 draws 10.2 kW


def in_server(gpu: Gpu) -> bool:
    """Return whether it is only used in servers."""
    return gpu.segment == "datacenter"


def server_for(gpu: Gpu) -> Server:
    """The server that takes this GPU."""
    return _FOR_MODULES if gpu.cooler == "module" else _FOR_CARDS


def server_counts(gpu: Gpu, wished: Sequence[int]) -> tuple[int, ...]:
    """Return how many of these GPUs one can buy in a server; modules come only as a full board."""
    server = server_for(gpu)
    return tuple(count for count in wished if count == server.most_gpus or (server is _FOR_CARDS and count < server.most_gpus))


# ---------------------------------------------------------------- renting


def rent(
    usd_per_gpu_hour: float,
    hours: float,
    *,
    gpu_count: int = 1,
    way: str = "on-demand",
    discount: float = 0.0,
    years: float = 0.0,
) -> Rental:
    """Return the cost of these hours of work. A commitment (`way`) pays for every hour of `years`, at a discount, used or not."""
    amount(usd_per_gpu_hour, "the rental price", "try `--cloud-price 2.14`")
    amount(hours, "the number of hours", "try `--hours-per-week 20`", zero=True)
    fraction(discount, "a discount", "--commit", "0.4")
    paid = HOURS_PER_YEAR * years if way == "commitment" else hours
    return Rental(
        way=way,
        gpu_count=gpu_count,
        usd_per_gpu_hour=usd_per_gpu_hour * (1 - discount),
        hours_used=hours,
        hours_paid=paid,
    )


def break_even_days(
    upfront_usd: float, rent_usd_per_hour: float, utilization: float, electricity_usd_per_hour: float = 0.0
) -> float | None:
    """Return the days after which renting has cost as much as buying and running, or None if it never does.

    >>> round(break_even_days(2200, 2.14, 0.15, 0.450 * 0.12))
    293
    """
    saved_usd_per_day = 24.0 * utilization * (rent_usd_per_hour - electricity_usd_per_hour)
    return upfront_usd / saved_usd_per_day if saved_usd_per_day > 0 else None


def break_even_utilization(
    upfront_usd: float, rent_usd_per_hour: float, years: float, electricity_usd_per_hour: float = 0.0
) -> float | None:
    """Return the utilisation at which both cost the same after these years, or None if even non-stop work does not reach it."""
    saved_usd = HOURS_PER_YEAR * years * (rent_usd_per_hour - electricity_usd_per_hour)
    return upfront_usd / saved_usd if saved_usd >= max(upfront_usd, 1e-12) else None


RENT_BELOW = 0.75  # of the cost of owning, assumed: a smaller saving does not pay for copying data and waiting for machines


def is_cheaper_rented(own_usd: float, rent_usd: float) -> bool:
    """The only rule for renting versus owning: renting is recommended if the same work costs at least a quarter less."""
    return rent_usd < RENT_BELOW * own_usd


# ---------------------------------------------------------------- carbon dioxide, from yearly life-cycle averages

DEFAULT_REGION = "United States"  # prices are in dollars, and most public guides are from there


def find_region(name: str) -> Region:
    """Return a region by its name, its two-letter code or a common spelling."""
    key = name.strip().lower()
    known = {spelling.lower(): region for region in regions() for spelling in (region.name, *region.aliases)}
    if key in known:
        return known[key]
    near = difflib.get_close_matches(key, known, n=2, cutoff=0.75)
    names = ", ".join(region.aliases[0] if region.aliases else region.name for region in regions())
    hint = f"did you mean {either(f'`{known[one].name}`' for one in near)}?" if near else f"use one of these: {names}"
    raise UnknownName(f"unknown region '{name}'", looked_in=f"{len(regions())} regions", hint=hint)


def emissions_kg(energy_kwh: float, grid: Grid) -> float:
    """Kilograms of CO2 equivalents."""
    return energy_kwh * grid.kg_per_kwh
