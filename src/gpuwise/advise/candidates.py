"""Candidates: GPUs to buy, rent or keep, each with its time per run and its total cost over the horizon.

A run is all jobs of the question once, one after the other. Every candidate works the same hours, so they are compared by their
cost per run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuwise.advise.paces import JobPace
from gpuwise.advise.tasks import Job
from gpuwise.hardware.types import Gpu
from gpuwise.money.costs import Tariff, own, rent
from gpuwise.money.types import HOURS_PER_YEAR, Grid, Price, RentRange

__all__ = ["KINDS", "Candidate", "TaskRun", "Terms", "kept", "owned", "rented", "run_on"]

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

    @property
    def seconds(self) -> float:
        return sum(self.job_s)

    @property
    def fits(self) -> bool:
        return all(pace.fits for pace in self.paces)

    @property
    def needed_bytes(self) -> float:
        """Of the job that needs most."""
        return max(pace.memory_bytes for pace in self.paces)

    @property
    def samples_per_s(self) -> float:
        return self.samples / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One thing to do. Amounts of None are unknown because no price is published. `running_usd` is the part of the total that
    depends on use: electricity, or rent."""

    kind: str
    run: TaskRun
    price: Price | None = None
    rent: RentRange | None = None
    upfront_usd: float | None
    total_usd: float | None
    running_usd: float
    energy_kwh: float
    kg_co2e: float
    runs: float

    @property
    def gpu(self) -> Gpu:
        return self.run.gpu

    @property
    def gpu_count(self) -> int:
        return self.run.gpu_count

    @property
    def name(self) -> str:
        return f"{self.gpu_count}x {self.gpu.name}" if self.gpu_count > 1 else self.gpu.name

    @property
    def key(self) -> str:
        """Identifies a candidate."""
        return f"{self.kind} {self.name}"

    @property
    def usd_per_run(self) -> float | None:
        """Cost per run; None where the price is unknown or nothing is run."""
        return None if self.total_usd is None or not self.runs else self.total_usd / self.runs

    @property
    def machine_usd(self) -> float | None:
        """The rest of the machine, as far as it is in the total; None where the total is unknown."""
        if self.total_usd is None:
            return None
        return self.total_usd - self.running_usd - (self.price.usd * self.gpu_count if self.price else 0.0)

    @property
    def usd_per_kwh(self) -> float | None:
        """The average price of a kWh; None where the rent includes it, or none is used."""
        return None if self.rent is not None or not self.energy_kwh else self.running_usd / self.energy_kwh

    @property
    def usd_per_million_samples(self) -> float | None:
        each = self.usd_per_run
        return None if each is None else each / self.run.samples * 1e6


def run_on(jobs: Sequence[Job], paces: Sequence[JobPace], low: float, high: float) -> TaskRun:
    """The run at these step times, all on the same number of one GPU."""
    return TaskRun(
        gpu=paces[0].gpu,
        gpu_count=paces[0].gpu_count,
        paces=tuple(paces),
        job_s=tuple(job.samples / pace.samples_per_s for job, pace in zip(jobs, paces, strict=True)),
        samples=sum(job.samples for job in jobs),
        low=low,
        high=high,
    )


def owned(run: TaskRun, terms: Terms, price: Price | None, *, kind: str, machine_upfront: bool = False) -> Candidate:
    """Bought, or kept where nothing is left to pay; electricity is added. The rest of the machine counts in the total, and
    upfront where the user wants to buy it too."""
    whole = 0.0 if price is None else price.usd * run.gpu_count
    machine = 0.0 if kind == "keep" else terms.machine_usd
    found = own(
        price_usd=whole,
        watts=_watts(run) + terms.machine_watts,
        utilization=terms.utilization,
        years=terms.years,
        tariff=terms.tariff,
        machine_usd=machine,
    )
    unknown = price is None and kind != "keep"
    return Candidate(
        kind=kind,
        run=run,
        price=price,
        upfront_usd=None if unknown else whole + (machine if machine_upfront else 0.0),
        total_usd=None if unknown else found.total_usd,
        running_usd=found.electricity_usd,
        energy_kwh=found.energy_kwh,
        kg_co2e=found.energy_kwh * terms.grid.kg_per_kwh,
        runs=found.hours * 3600 / run.seconds,
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
