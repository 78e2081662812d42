"""Candidates: GPUs that are sold new or used, rented or already owned, each with its time per run and its total cost over the
horizon.

A run is all jobs of the question once, one after the other. Every candidate works the same hours, so they are compared by their
cost per run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

from gpuwise.advise.jobs import Job, JobPace
from gpuwise.hardware.machines import nodes
from gpuwise.hardware.types import Gpu
from gpuwise.money.costs import Tariff, own, rent
from gpuwise.money.estimates import remaining
from gpuwise.money.prices import PriceBook, price_now, rent_median, rent_offers, sold_new
from gpuwise.money.types import HOURS_PER_YEAR, Grid, Price, RentRange

__all__ = [
    "KINDS",
    "Candidate",
    "Offered",
    "TaskRun",
    "Terms",
    "Wanted",
    "buy_kind",
    "buyable",
    "kept",
    "offered",
    "owned",
    "price_for",
    "rentable",
    "rented",
    "rented_counts",
    "run_on",
    "served",
    "whole",
]

# ---------------------------------------------------------------- what is available today: speed plays no part

_ENOUGH_CLOUDS = 2  # a single cloud's price is not a market price
_CARDS = ("desktop", "workstation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which GPUs are considered: vendor (empty: any), laptop or not, servers too, and the condition, one of `CONDITIONS`."""

    vendor: str = ""
    laptop: bool = False
    servers: bool = False
    condition: str = "any"

    def accepts(self, gpu: Gpu) -> bool:
        """Whether vendor and segment match, at any price."""
        kinds = ("laptop",) if self.laptop else (*_CARDS, "soc", *(["datacenter"] if self.servers else []))
        return gpu.segment in kinds and self.vendor.lower() in ("", gpu.vendor.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A GPU and how it is available: on sale to anyone, for rent, or neither."""

    gpu: Gpu
    price: Price | None
    rent: RentRange | None


def offered(gpus: Sequence[Gpu], book: PriceBook) -> list[Offered]:
    """Return how each of these is available. Data-centre modules and accelerators are only rented, even if a price is known,
    and cards that current software no longer supports are not worth buying.
    """
    rents = {gpu.name: rent for gpu, rent in rentable(gpus, "", book)}
    prices = {gpu.name: price_for(gpu, book) for gpu in gpus if gpu.segment in (*_CARDS, "laptop") and served(gpu)}
    return [Offered(gpu=gpu, price=prices.get(gpu.name), rent=rents.get(gpu.name)) for gpu in gpus]


def served(gpu: Gpu) -> bool:
    """Return whether current software runs on it."""
    return bool(gpu.architecture.first_software) and not gpu.architecture.last_software


def whole(gpu: Gpu) -> bool:
    """Return whether it is only sold as part of a whole computer: a laptop, or a chip with CPU and memory."""
    return gpu.segment in ("laptop", "soc")


def buy_kind(gpu: Gpu, price: Price, today: date) -> str:
    """Bought new or used."""
    if price.kind in ("new", "used"):
        return f"buy {price.kind}"
    return "buy new" if sold_new(gpu, today) else "buy used"


def price_for(gpu: Gpu, book: PriceBook, condition: str = "any") -> Price | None:
    """Return the current price of a card. The launch price of a card that is no longer sold new does not count."""
    price = price_now(gpu, book, condition)
    return None if price is not None and price.kind == "launch" and not sold_new(gpu, book.today) else price


def buyable(gpus: Sequence[Gpu], wanted: Wanted, book: PriceBook) -> list[tuple[Gpu, Price | None]]:
    """Return GPUs on sale, with their price. Laptop GPUs come with a laptop: their price is unknown unless the user gives one."""
    found = []
    for gpu in gpus:
        if not (wanted.accepts(gpu) and served(gpu)):
            continue
        price = price_for(gpu, book, wanted.condition)
        offered = price is not None or (wanted.laptop and sold_new(gpu, book.today))
        used = price is not None and buy_kind(gpu, price, book.today) == "buy used"
        if offered and not (used and wanted.condition == "new"):
            found.append((gpu, price))
    return found


def rentable(gpus: Sequence[Gpu], vendor: str, book: PriceBook) -> list[tuple[Gpu, RentRange]]:
    """Return GPUs for rent from more than one cloud, or from an offer the user gave, with their median price."""
    pairs = [(gpu, rent_median(gpu, book)) for gpu in gpus if vendor.lower() in ("", gpu.vendor.lower()) and gpu.segment != "tpu"]
    return [
        (gpu, offer) for gpu, offer in pairs if offer is not None and (len(offer.clouds) >= _ENOUGH_CLOUDS or _given(gpu, book))
    ]


def rented_counts(gpu: Gpu, wished: Sequence[int]) -> tuple[int, ...]:
    """Return how many of this GPU one can rent in one machine: at most as many as the largest known machine has, and one for
    superchips, which each have their own machine.
    """
    most = max((node.gpu_count for node in nodes().values() if node.gpu == gpu.name), default=math.inf)
    return tuple(count for count in wished if count <= most)


def _given(gpu: Gpu, book: PriceBook) -> bool:
    return any(offer.kind == "given" for offer in rent_offers(gpu, book))


# ---------------------------------------------------------------- what it costs

KINDS = ("keep", "buy new", "buy used", "rent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the cost depends on besides the GPU."""

    utilization: float
    years: float
    tariff: Tariff
    grid: Grid
    machine_watts: float
    machine_usd: float
    resale_fraction: float | None = None

    def resale_share(self, kind: str) -> float:
        """Return the resale value as a share of the price: the user's value, or the usual loss of value."""
        return remaining(self.years, new=kind == "buy new") if self.resale_fraction is None else self.resale_fraction

    @property
    def hours(self) -> float:
        """Hours of work over the horizon."""
        return HOURS_PER_YEAR * self.utilization * self.years


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """All jobs of the question on `gpu_count` GPUs of one kind. `low` and `high` are measured over predicted time."""

    gpu: Gpu
    gpu_count: int
    paces: tuple[JobPace, ...]
    job_s: tuple[float, ...]
    samples: float
    low: float
    high: float
    seconds: float = field(init=False)
    fits: bool = field(init=False)
    adds_up: bool = field(init=False)

    def __post_init__(self) -> None:  # all are asked for thousands of times while options are compared
        object.__setattr__(self, "seconds", math.fsum(self.job_s))  # the same in every Python
        object.__setattr__(self, "fits", all(pace.fits for pace in self.paces))
        object.__setattr__(self, "adds_up", all(pace.adds_up for pace in self.paces))

    @property
    def needed_bytes(self) -> float:
        """The memory of the job that needs most."""
        return max(pace.memory_bytes for pace in self.paces)

    @property
    def samples_per_s(self) -> float:
        return self.samples / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One option. Amounts of None are unknown because no price is published. `running_usd` is the part of the total that
    depends on use: electricity, or rent. `added` of the GPUs are bought to join others of the same kind that the user has.
    """

    kind: str
    run: TaskRun
    price: Price | None = None
    rent: RentRange | None = None
    upfront_usd: float | None
    total_usd: float | None
    running_usd: float
    resale_usd: float = 0.0
    energy_kwh: float
    kg_co2e: float
    runs: float
    added: int = 0

    @property
    def gpu(self) -> Gpu:
        return self.run.gpu

    @property
    def gpu_count(self) -> int:
        return self.run.gpu_count

    @property
    def name(self) -> str:
        more = f" ({self.added} more)" if self.added else ""
        return f"{self.gpu_count}x {self.gpu.name}{more}" if self.gpu_count > 1 else self.gpu.name

    @property
    def key(self) -> str:
        """Identifies a candidate."""
        return f"{self.kind} {self.name}"

    @property
    def bought_count(self) -> int:
        """How many GPUs are paid for."""
        return self.added or self.gpu_count

    @property
    def usd_per_run(self) -> float | None:
        """Cost per run; None if the price is unknown or nothing is run."""
        return None if self.total_usd is None or not self.runs else self.total_usd / self.runs

    @property
    def machine_usd(self) -> float | None:
        """The rest of the machine, as far as it is in the total; None if the total is unknown."""
        if self.total_usd is None:
            return None
        return self.total_usd + self.resale_usd - self.running_usd - (self.price.usd * self.bought_count if self.price else 0.0)

    @property
    def usd_per_kwh(self) -> float | None:
        """The average price of a kWh; None if the rent includes it, or none is used."""
        return None if self.rent is not None or not self.energy_kwh else self.running_usd / self.energy_kwh

    @property
    def usd_per_million_samples(self) -> float | None:
        each = self.usd_per_run
        return None if each is None else each / self.run.samples * 1e6


def run_on(jobs: Sequence[Job], paces: Sequence[JobPace], low: float, high: float) -> TaskRun:
    """Return the run at these step times, all on the same number of one GPU."""
    return TaskRun(
        gpu=paces[0].gpu,
        gpu_count=paces[0].gpu_count,
        paces=tuple(paces),
        job_s=tuple(job.samples / pace.samples_per_s for job, pace in zip(jobs, paces, strict=True)),
        samples=sum(job.samples for job in jobs),
        low=low,
        high=high,
    )


def owned(run: TaskRun, terms: Terms, price: Price | None, *, kind: str, upfront_usd: float = 0.0, added: int = 0) -> Candidate:
    """A purchase, or a GPU to keep if nothing is left to pay; electricity is added. The rest of the machine counts in the
    total; `upfront_usd` of it are paid together with the cards. `added` GPUs are bought if the user has the others.
    """
    whole = 0.0 if price is None else price.usd * (added or run.gpu_count)
    machine = 0.0 if kind == "keep" else terms.machine_usd
    resale = 0.0 if price is None else whole * terms.resale_share(kind)
    found = own(
        price_usd=whole,
        watts=_watts(run) + terms.machine_watts,
        utilization=terms.utilization,
        years=terms.years,
        tariff=terms.tariff,
        machine_usd=machine,
        resale_usd=resale,
    )
    unknown = price is None and kind != "keep"
    return Candidate(
        kind=kind,
        run=run,
        price=price,
        upfront_usd=None if unknown else whole + upfront_usd,
        total_usd=None if unknown else found.total_usd,
        running_usd=found.electricity_usd,
        resale_usd=found.resale_usd,
        energy_kwh=found.energy_kwh,
        kg_co2e=found.energy_kwh * terms.grid.kg_per_kwh,
        runs=found.hours * 3600 / run.seconds,
        added=added,
    )


def kept(run: TaskRun, terms: Terms) -> Candidate:
    """The user's own GPU: only its electricity costs anything."""
    return owned(run, terms, None, kind="keep")


def rented(run: TaskRun, terms: Terms, offer: RentRange) -> Candidate:
    """The same hours in a cloud, at the median of what clouds charge."""
    bill = rent(offer.usd_per_gpu_hour, terms.hours, gpu_count=run.gpu_count)
    energy = (_watts(run) + terms.machine_watts) * terms.hours / 1000
    return Candidate(
        kind="rent",
        run=run,
        rent=offer,
        upfront_usd=0.0,
        total_usd=bill.total_usd,
        running_usd=bill.total_usd,
        energy_kwh=energy,
        kg_co2e=energy * terms.grid.kg_per_kwh,
        runs=terms.hours * 3600 / run.seconds,
    )


def _watts(run: TaskRun) -> float:
    return (run.gpu.tdp_watts or 0.0) * run.gpu_count
