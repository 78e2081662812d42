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
from gpuwise.core.text import both
from gpuwise.hardware.machines import nodes
from gpuwise.hardware.types import Gpu
from gpuwise.money.costs import Tariff, own, rent
from gpuwise.money.prices import PriceBook, is_used, price_now, rent_median, rent_offers, resale_usd, sold_new
from gpuwise.money.types import HOURS_PER_YEAR, Grid, Price, RentRange

__all__ = [
    "KINDS",
    "Candidate",
    "TaskRun",
    "Terms",
    "Wanted",
    "buy_kind",
    "buyable",
    "describe_run",
    "kept",
    "owned",
    "price_for",
    "rentable",
    "rented",
    "rented_counts",
    "run_on",
    "served",
    "spread",
    "whole",
]

# ---------------------------------------------------------------- what is available today: speed plays no part

_ENOUGH_CLOUDS = 2  # a single cloud's price is not a market price
_CARDS = ("desktop", "workstation")
_WAITING = 0.1  # of its rated power: what a GPU draws while another one works, assumed


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
        sold = gpu.segment in kinds or (self.laptop and _in_macbooks(gpu))
        return sold and self.vendor.lower() in ("", gpu.vendor.lower())


def _in_macbooks(gpu: Gpu) -> bool:
    """Whether Apple sells it in laptops: all its chips but the largest."""
    return gpu.vendor == "Apple" and gpu.segment == "soc" and "Ultra" not in gpu.name


def served(gpu: Gpu) -> bool:
    """Return whether current software runs on it."""
    return bool(gpu.architecture.first_software) and not gpu.architecture.last_software


def whole(gpu: Gpu) -> bool:
    """Return whether it is only sold as part of a whole computer: a laptop, or a chip with CPU and memory."""
    return gpu.segment in ("laptop", "soc")


def buy_kind(gpu: Gpu, price: Price, today: date) -> str:
    """Bought new or used."""
    return "buy used" if is_used(gpu, price, today) else "buy new"


def price_for(gpu: Gpu, book: PriceBook, condition: str = "any") -> Price | None:
    """Return the current price of a card. The launch price of a card that is no longer sold new does not count."""
    price = price_now(gpu, book, condition)
    return None if price is not None and price.kind == "launch" and not sold_new(gpu, book.today) else price


def buyable(gpus: Sequence[Gpu], wanted: Wanted, book: PriceBook) -> list[tuple[Gpu, Price | None]]:
    """Return GPUs on sale, with their price. Laptop GPUs come with a laptop: unless one is published, their price is unknown.
    So are those of most computers by Apple, which count if only Apple is asked for. Its published prices are those of desktops.
    """
    found = []
    for gpu in gpus:
        if not (wanted.accepts(gpu) and served(gpu)):
            continue
        known = not wanted.laptop or gpu.segment == "laptop" or gpu.name in book.given
        price = price_for(gpu, book, wanted.condition) if known else None
        asked = wanted.laptop or (wanted.vendor.lower() == gpu.vendor.lower() and whole(gpu))  # for computers, not cards
        offered = price is not None or (asked and sold_new(gpu, book.today))
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
    today: date
    resale_fraction: float | None = None

    def resale_usd(self, gpu: Gpu, price: Price) -> float:
        """Return what one GPU bought at this price brings at the end: the user's share, or by the usual loss of value."""
        if self.resale_fraction is not None:
            return price.usd * self.resale_fraction
        return resale_usd(gpu, price, self.years, self.today)

    @property
    def hours(self) -> float:
        """Hours of work over the horizon."""
        return HOURS_PER_YEAR * self.utilization * self.years


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """All jobs of the question on `gpu_count` GPUs of one kind. `low` and `high` are measured over predicted time. With
    `beside`, that many of the GPUs are of another kind, which the user has. If it `takes_turns`, one GPU works at a time.
    """

    gpu: Gpu
    gpu_count: int
    paces: tuple[JobPace, ...]
    job_s: tuple[float, ...]
    samples: float
    low: float
    high: float
    beside: tuple[Gpu, int] | None = None
    takes_turns: bool = False
    seconds: float = field(init=False)
    fits: bool = field(init=False)
    adds_up: bool = field(init=False)

    def __post_init__(self) -> None:  # all are asked for thousands of times while options are compared
        object.__setattr__(self, "seconds", math.fsum(self.job_s))  # the same in every Python
        object.__setattr__(self, "fits", all(pace.fits for pace in self.paces))
        object.__setattr__(self, "adds_up", all(pace.adds_up for pace in self.paces))

    @property
    def held(self) -> str:
        """How several GPUs hold what they train, in words."""
        if any(pace.shares_model for pace in self.paces):
            return "the GPUs share the weights, gradients and optimizer states of the model (FSDP)"
        return "each GPU holds the whole model, so their memory is not pooled"

    @property
    def needed_bytes(self) -> float:
        """The memory of the job that needs most."""
        return max(pace.memory_bytes for pace in self.paces)

    @property
    def samples_per_s(self) -> float:
        return self.samples / self.seconds

    @property
    def parts(self) -> tuple[tuple[Gpu, int], ...]:
        """Every kind of GPU with its number."""
        if self.beside is None:
            return ((self.gpu, self.gpu_count),)
        return (self.beside, (self.gpu, self.gpu_count - self.beside[1]))

    @property
    def watts(self) -> float:
        """Rated power of all GPUs; of those that wait for their turn, what they draw meanwhile."""
        rated = [gpu.tdp_watts or 0.0 for gpu, count in self.parts for _ in range(count)]
        return max(rated) + _WAITING * (sum(rated) - max(rated)) if self.takes_turns else sum(rated)

    @property
    def shared_bytes(self) -> float:
        """The memory that one model can use: of all GPUs where their memory adds up, else of one."""
        return sum(gpu.memory_bytes * count for gpu, count in self.parts) if self.adds_up else self.gpu.memory_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One option. Amounts of None are unknown because no price is published. `running_usd` is the part of the total that
    depends on use: electricity, or rent. `added` of the GPUs are bought to join others that the user has.
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
        if self.run.beside is not None:
            own, held = self.run.beside
            return f"{self.gpu.name} with your {f'{held}x ' if held > 1 else ''}{own.name}"
        more = f" ({self.added} more)" if self.added else ""
        return f"{self.gpu_count}x {self.gpu.name}{more}" if self.gpu_count > 1 else self.gpu.name

    @property
    def short_name(self) -> str:
        """The name in a table."""
        return self.name if self.run.beside is None else f"{self.gpu.name} + yours"

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


def run_on(
    jobs: Sequence[Job],
    paces: Sequence[JobPace],
    low: float,
    high: float,
    *,
    beside: tuple[Gpu, int] | None = None,
    takes_turns: bool = False,
) -> TaskRun:
    """Return the run at these step times, all on the same number of one GPU, or also on GPUs `beside` it."""
    return TaskRun(
        gpu=paces[0].gpu,
        gpu_count=paces[0].gpu_count,
        paces=tuple(paces),
        job_s=tuple(job.samples / pace.samples_per_s for job, pace in zip(jobs, paces, strict=True)),
        samples=sum(job.samples for job in jobs),
        low=low,
        high=high,
        beside=beside,
        takes_turns=takes_turns,
    )


def describe_run(jobs: Sequence[Job]) -> str:
    """What a run is, in a few words."""
    first, *others = jobs
    if others:
        done = "trained" if all(job.mode == "train" for job in jobs) else "run"
        return f"{both(job.model for job in jobs)}, each {done} once"
    if first.note:
        return f"{first.model}: {first.note}"
    what = f"sequences of {first.seq:,} tokens" if first.seq else "samples"
    return f"{first.samples:,.0f} {what} with {first.model}"


def owned(run: TaskRun, terms: Terms, price: Price | None, *, kind: str, upfront_usd: float = 0.0, added: int = 0) -> Candidate:
    """A purchase, or a GPU to keep if nothing is left to pay; electricity is added. The rest of the machine counts in the
    total; `upfront_usd` of it are paid together with the cards. `added` GPUs are bought if the user has the others.
    """
    whole = 0.0 if price is None else price.usd * (added or run.gpu_count)
    machine = 0.0 if kind == "keep" else terms.machine_usd
    resale = 0.0 if price is None else terms.resale_usd(run.gpu, price) * (added or run.gpu_count)
    found = own(
        price_usd=whole,
        watts=run.watts + terms.machine_watts,
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
    energy = (run.watts + terms.machine_watts) * terms.hours / 1000
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


# ---------------------------------------------------------------- which of many to show


def spread(options: Sequence[Candidate], count: int) -> list[Candidate]:
    """Return this many of them, evenly along the list, including its ends and the one with the least time times cost."""
    if len(options) <= count or count < 2:
        return list(options[: max(0, count)])
    places = sorted({round(place * (len(options) - 1) / (count - 1)) for place in range(count)})
    value = [one.run.seconds * (math.inf if one.total_usd is None else one.total_usd) for one in options]
    best = value.index(min(value))
    if best not in places and len(places) > 2:
        places.remove(min(places[1:-1], key=lambda place: abs(place - best)))
        places.append(best)
    return [options[place] for place in sorted(places)]
