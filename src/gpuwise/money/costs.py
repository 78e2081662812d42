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
from gpuwise.money.currency import amount, fraction
from gpuwise.money.estimates import worth_used
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
    "RENT_FASTER",
    "RENT_FASTER_BELOW",
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
    "machine_usd",
    "more_machine_usd",
    "of_region",
    "own",
    "rent",
    "rent_below",
    "server_counts",
    "server_for",
    "servers_of",
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
        """The cost on the first day."""
        return self.gpu_usd + self.machine_usd

    @property
    def total_usd(self) -> float:
        """The total cost of buying, running and selling."""
        return self.upfront_usd + self.electricity_usd - self.resale_usd

    @property
    def usd_per_hour(self) -> float | None:
        """The cost of an hour of work; None if there is no work."""
        return self.total_usd / self.hours if self.hours else None

    @property
    def energy_kwh_per_year(self) -> float:
        """The electricity used in an average year."""
        return self.energy_kwh / self.years

    @property
    def electricity_usd_per_year(self) -> float:
        """The cost of that electricity."""
        return self.electricity_usd / self.years

    @property
    def electricity_usd_per_hour(self) -> float:
        """The electricity cost of an hour of work."""
        return self.electricity_usd / self.hours if self.hours else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rental:
    """The cost of renting: paid hours at a rate, by payment model (on-demand, spot, commitment)."""

    way: str
    gpu_count: int
    usd_per_gpu_hour: float
    hours_used: float
    hours_paid: float

    @property
    def total_usd(self) -> float:
        """The cost of all paid hours on all GPUs."""
        return self.gpu_count * self.usd_per_gpu_hour * self.hours_paid

    @property
    def usd_per_hour(self) -> float | None:
        """The cost of an hour of work on all GPUs; None if there is no work."""
        return self.total_usd / self.hours_used if self.hours_used else None


# ---------------------------------------------------------------- electricity, flat or in tiers that rise with use


def flat(usd_per_kwh: float, *, basis: Basis = Basis.GIVEN, source: str = "") -> Tariff:
    """Return a tariff at which every kWh costs the same."""
    rate = amount(usd_per_kwh, "an electricity price", "try `--kwh-price 0.12`", zero=True)
    return Tariff(tiers=((math.inf, rate),), basis=basis, source=source)


def of_region(electricity: Electricity) -> Tariff:
    """Return the average household price of a region."""
    source = f"household price in {electricity.region}, {electricity.year}: {electricity.source}"
    return flat(electricity.usd_per_kwh, basis=electricity.basis, source=source)


def bill_usd(tariff: Tariff, kwh: float) -> float:
    """Return the cost of this many kWh in one month, counted from the first kWh."""
    total, lower = 0.0, 0.0
    for place, (upper, rate) in enumerate(tariff.tiers):
        last = place == len(tariff.tiers) - 1
        total += max(0.0, (kwh if last else min(kwh, upper)) - lower) * rate
        lower = upper
    return total


def electricity_usd(tariff: Tariff, kwh: float, years: float) -> float:
    """Return how much these kWh, spread evenly over the years, add to a household's bill."""
    months = MONTHS_PER_YEAR * years
    base = tariff.household_kwh_per_month
    return months * (bill_usd(tariff, base + kwh / months) - bill_usd(tariff, base))


# ---------------------------------------------------------------- owning

WEEK_HOURS = 168.0
_MOST_YEARS = 20.0  # no GPU is useful for longer


def utilization_of(hours_per_week: float) -> float:
    """Return hours per week as a share of all hours."""
    hint = "try `--hours-per-week 20`"
    amount(hours_per_week, "the number of hours per week", hint, zero=True)
    if hours_per_week > WEEK_HOURS:
        raise BadValue(f"{hours_per_week:g} hours per week is more than the {WEEK_HOURS:g} hours in a week", hint=hint)
    return hours_per_week / WEEK_HOURS


def years_of(value: float) -> float:
    """Return the number of years; a number that exceeds the life of any GPU is refused as a mistake."""
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
    """Return the total cost, itemised. `price_usd` is for all GPUs together, and `watts` is for everything that runs while they
    work.
    """
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


# ---------------------------------------------------------------- the machine around the GPUs
# Its price depends on the slots, the power and the airflow that the GPUs need. All of these prices are assumed, for machines of
# 2026 without GPUs. Used cards go into a used workstation or server, which has lost as much of its value as a card of its age.

LAB_USD = 10_000.0  # a budget from which servers are considered, assumed
DESK_USE, LAB_USE = 0.15, 0.35  # of all hours, for a busy desktop and a shared cluster (a guide to GPUs for deep learning, 2023)
COOLING = 0.5  # relative to the machines' power, in the average data centre (Uptime Institute's survey of 2024, PUE 1.56)
MACHINE_USD = 700.0  # a plain desktop without its GPU; assumed from the guide's 2,200 minus an RTX 3090
_FEW, _SOME = 2, 4  # cards that fit in a desktop, and in a workstation
_WORKSTATION_USD = 4_000.0  # a CPU with 64 lanes or more, a board with four slots, 128 GB of memory, a large case
_SUPPLY_USD_PER_WATT = 0.25  # 850 W cost about $120, 1,600 W about $300; two supplies cost as much as one of their combined size
_LOAD = 0.8  # share of its rating: the load that `gpuwise build` recommends for a power supply
_FABRIC_USD = 2_000.0  # for each GPU in a set of several servers: an InfiniBand adapter, a cable and a share of a switch


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server without its GPUs. It has its own power supplies and fans."""

    title: str
    usd: float
    watts: float
    most_gpus: int


_FOR_CARDS = (
    Server(title="a server for two PCIe cards", usd=3_000.0, watts=250.0, most_gpus=2),
    Server(title="a server for four PCIe cards", usd=6_000.0, watts=400.0, most_gpus=4),
    Server(title="a server for eight PCIe cards", usd=15_000.0, watts=800.0, most_gpus=8),  # two CPUs, 512 GB
)
_FOR_MODULES = (Server(title="a server for eight modules", usd=60_000.0, watts=4_000.0, most_gpus=8),)  # a DGX H100 draws 10.2 kW


def in_server(gpu: Gpu) -> bool:
    """Return whether this GPU is used only in servers."""
    return gpu.segment == "datacenter"


def server_for(gpu: Gpu, count: int = 1) -> Server:
    """Return the smallest server that holds this many GPUs of this kind, or the largest one if several are needed."""
    known = _FOR_MODULES if gpu.cooler == "module" else _FOR_CARDS
    return next((server for server in known if count <= server.most_gpus), known[-1])


def servers_of(gpu: Gpu, count: int) -> float:
    """Return how many servers these GPUs need. If the modules do not fill a board, they take a share of one server."""
    most = server_for(gpu, count).most_gpus
    return count / most if gpu.cooler == "module" and count < most else -(-count // most)


def server_counts(gpu: Gpu, wished: Sequence[int]) -> tuple[int, ...]:
    """Return which of these numbers of GPUs are for sale: modules on full boards, in any number of servers; cards for one."""
    most = server_for(gpu, max(wished, default=1)).most_gpus
    return tuple(count for count in wished if (count % most == 0 if gpu.cooler == "module" else count <= most))


def machine_usd(gpu: Gpu, count: int, age_years: float = 0.0) -> float:
    """Return the cost of the machine for this many GPUs, of this age if they are bought used: a desktop for up to two cards, a
    workstation for up to four, and otherwise a server. Every card after the first needs a larger power supply.
    """
    worth = min(1.0, worth_used(age_years)) if age_years else 1.0
    if in_server(gpu):
        server, servers = server_for(gpu, count), servers_of(gpu, count)
        return servers * _rounded(max(MACHINE_USD, worth * server.usd)) + (count * _FABRIC_USD if servers > 1 else 0.0)
    largest = _FOR_CARDS[-1]
    full, rest = divmod(count - 1, largest.most_gpus)
    if full:  # several machines
        return full * machine_usd(gpu, largest.most_gpus, age_years) + machine_usd(gpu, rest + 1, age_years)
    supply = rest * (gpu.tdp_watts or 0.0) / _LOAD * _SUPPLY_USD_PER_WATT
    board = 0.0 if count <= _FEW else _WORKSTATION_USD if count <= _SOME else largest.usd
    return _rounded(max(MACHINE_USD, worth * board) + supply)


def _rounded(usd: float) -> float:
    return 10.0 * round(usd / 10.0)  # an assumed price is not more precise


def more_machine_usd(gpu: Gpu, count: int, age_years: float = 0.0, held: Sequence[tuple[Gpu, int]] = ()) -> float:
    """Return how much more this machine costs than a plain desktop, or than the machine for the GPUs that the user has."""
    now = max((machine_usd(own, number, age_years) for own, number in held), default=MACHINE_USD)
    return max(0.0, machine_usd(gpu, count, age_years) - now)


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
    """Return the cost of these hours of work. With a commitment (`way`), every hour of `years` is paid for at a discount, used
    or not.
    """
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


RENT_BELOW = 0.75  # share of the cost of owning, assumed: a smaller saving is not worth copying data and waiting for machines
RENT_FASTER, RENT_FASTER_BELOW = 1.5, 0.9  # times as fast, and share of the cost: the time that is saved counts too, assumed


def rent_below(faster: float = 1.0) -> float:
    """Return the share of the cost of owning below which to rent a GPU that is this many times as fast. This is the only rule."""
    return RENT_FASTER_BELOW if faster >= RENT_FASTER else RENT_BELOW


def is_cheaper_rented(own_usd: float, rent_usd: float, faster: float = 1.0) -> bool:
    """Return whether to rent: only if the same work costs a quarter less, or a tenth less on a GPU that is 1.5 times as fast."""
    return rent_usd < rent_below(faster) * own_usd


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
    """Return kilograms of CO2 equivalents."""
    return energy_kwh * grid.kg_per_kwh
