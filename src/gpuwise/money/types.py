"""What a price, an offer, a tariff and a grid are, and what owning and renting come to. Values only.

Money is in US dollars inside; a currency is applied where people type and read. Every price has a date and a source.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from gpuwise.core.provenance import Basis

__all__ = [
    "HOURS_PER_YEAR",
    "MONTHS_PER_YEAR",
    "Electricity",
    "Grid",
    "Offer",
    "Ownership",
    "Price",
    "Region",
    "RentRange",
    "Rental",
    "Tariff",
    "Trend",
]

HOURS_PER_YEAR = 8_760.0
MONTHS_PER_YEAR = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What one GPU costs to buy. `kind` is given (by the user), used, new or launch; `low_usd` and `high_usd` are its range."""

    gpu: str
    kind: str
    usd: float
    low_usd: float
    high_usd: float
    dated: date
    source: str
    basis: Basis
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What one GPU costs to rent for an hour from one cloud: the median over its regions and sizes.

    `kind` is cloud, marketplace, auction (a reserve price that nobody has to sell at) or given. Where `with_host` is off, the
    machine around the GPU is billed on top.
    """

    cloud: str
    gpu: str
    kind: str = "cloud"
    usd_per_gpu_hour: float
    low_usd_per_gpu_hour: float
    spot_usd_per_gpu_hour: float | None = None
    with_host: bool = True
    dated: date
    source: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RentRange:
    """One GPU's rent over clouds: the median of their medians, the cheapest and the most expensive, and the middle date."""

    gpu: str
    usd_per_gpu_hour: float
    low_usd_per_gpu_hour: float
    high_usd_per_gpu_hour: float
    spot_usd_per_gpu_hour: float | None
    clouds: tuple[str, ...]
    dated: date
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """How the median rent of a GPU moved between two dates, and how many clouds each median is over."""

    gpu: str
    first: date
    first_usd_per_gpu_hour: float
    first_clouds: int
    last: date
    last_usd_per_gpu_hour: float
    last_clouds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """What electricity costs: tiers of (kWh a month up to which a rate holds, USD per kWh); the last rate holds beyond.

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
class Grid:
    """How much carbon dioxide a kWh of a region's grid stands for: the average over a year, life cycle."""

    region: str
    kg_per_kwh: float
    year: int
    source: str
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class Electricity:
    """What households of a region pay for a kWh, on average over a year."""

    region: str
    usd_per_kwh: float
    year: int
    source: str
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A country, a union or the world: its grid, and what electricity costs there."""

    name: str
    aliases: tuple[str, ...]
    grid: Grid
    electricity: Electricity


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """The cost of owning over a horizon, part by part. `hours` are hours of work."""

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
