"""The types for prices, offers and grids. `costs.py` computes the cost of owning and renting.

Amounts are stored in US dollars; currencies are converted on input and output. Every price has a date and a source.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from gpuwise.core.provenance import Basis

__all__ = ["HOURS_PER_YEAR", "MONTHS_PER_YEAR", "Electricity", "Grid", "Offer", "Price", "Region", "RentRange", "Trend"]

HOURS_PER_YEAR = 8_760.0
MONTHS_PER_YEAR = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price to buy one GPU. `kind` is given (by the user), used, new or launch; `low_usd` and `high_usd` are its range. An
    `estimated` price was not published by anyone.
    """

    gpu: str
    kind: str
    usd: float
    low_usd: float
    high_usd: float
    dated: date
    source: str
    basis: Basis
    note: str = ""
    estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The price to rent one GPU for an hour from one cloud: the median over its regions and sizes.

    `kind` is cloud, marketplace, auction (a reserve price at which nobody has to sell) or given. If `with_host` is off, the
    machine around the GPU is billed separately.
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
    """How the median rent of a GPU changed between two dates, and the number of clouds behind each median."""

    gpu: str
    first: date
    first_usd_per_gpu_hour: float
    first_clouds: int
    last: date
    last_usd_per_gpu_hour: float
    last_clouds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The carbon dioxide per kWh of a region's grid: the average over a year and over the life cycle."""

    region: str
    kg_per_kwh: float
    year: int
    source: str
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class Electricity:
    """The price that households in a region pay for a kWh, averaged over a year."""

    region: str
    usd_per_kwh: float
    year: int
    source: str
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A country, a union or the world: its grid, and its electricity price."""

    name: str
    aliases: tuple[str, ...]
    grid: Grid
    electricity: Electricity
