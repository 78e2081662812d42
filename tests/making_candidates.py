"""Options with chosen values: one real GPU, any time, any cost."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import date

from gpuwise.advise.candidates import Candidate, TaskRun, Terms, owned, rented
from gpuwise.advise.jobs import JobPace
from gpuwise.core.provenance import Basis
from gpuwise.core.units import GIB
from gpuwise.hardware.catalog import load_catalog
from gpuwise.money.costs import find_region, flat
from gpuwise.money.types import Price, RentRange
from gpuwise.prediction.choices import Choices

GPU = next(gpu for gpu in load_catalog().curated if gpu.name == "RTX 3090")
DAY = date(2026, 11, 16)
TERMS = Terms(
    utilization=0.15,
    years=3.0,
    tariff=flat(0.2),
    grid=find_region("US").grid,
    machine_watts=100.0,
    machine_usd=1000.0,
    today=DAY,
)


def run(
    seconds: float, *, count: int = 1, fits: bool = True, name: str = "", samples: float = 1e6, gib: float | None = None
) -> TaskRun:
    """One job of so many seconds; `gib` is the memory of each GPU."""
    gpu = replace(GPU, name=name or GPU.name, memory_bytes=GPU.memory_bytes if gib is None else int(gib * GIB))
    pace = JobPace(
        gpu=gpu,
        choices=Choices(precision="amp", gpu_count=count),
        batch=1,
        step_s=seconds / samples * count,
        memory_bytes=1e9 if fits else 1e12,
        usable_bytes=2e10,
        bound="compute",
    )
    return TaskRun(gpu=gpu, gpu_count=count, paces=(pace,), job_s=(seconds,), samples=samples, low=0.8, high=1.2)


def price_of(usd: float, name: str = GPU.name, kind: str = "new", *, low: float = 1.0, high: float = 1.0) -> Price:
    """A price; the ends of its range are given as multiples of it."""
    return Price(
        gpu=name,
        kind=kind,
        usd=usd,
        low_usd=usd * low,
        high_usd=usd * high,
        dated=DAY,
        source="here",
        basis=Basis.ASSUMED,
    )


def buy(
    seconds: float,
    usd: float,
    *,
    terms: Terms = TERMS,
    count: int = 1,
    kind: str = "buy new",
    fits: bool = True,
    name: str = "",
    gib: float | None = None,
    low: float = 1.0,
    high: float = 1.0,
) -> Candidate:
    """A card of this price; money and time make its name where none is given."""
    made = run(seconds, count=count, fits=fits, name=name or f"{seconds!r} {usd!r}", gib=gib)
    return owned(made, terms, price_of(usd, made.gpu.name, low=low, high=high), kind=kind)


def hire(seconds: float, usd_per_hour: float, *, terms: Terms = TERMS, count: int = 1, name: str = "rented") -> Candidate:
    """The same from a cloud."""
    offer = RentRange(
        gpu=name,
        usd_per_gpu_hour=usd_per_hour,
        low_usd_per_gpu_hour=usd_per_hour,
        high_usd_per_gpu_hour=usd_per_hour,
        spot_usd_per_gpu_hour=None,
        clouds=("here", "there"),
        dated=DAY,
    )
    return rented(run(seconds, count=count, name=name), terms, offer)


class SharedPace(JobPace):
    """A job that several GPUs hold together."""

    @property
    def adds_up(self) -> bool:
        return True


def adding_up(option: Candidate) -> Candidate:
    """The same GPUs where they share the memory of the job."""
    (pace,) = option.run.paces
    shared = SharedPace(**{part.name: getattr(pace, part.name) for part in fields(pace)})
    return replace(option, run=replace(option.run, paces=(shared,)))
