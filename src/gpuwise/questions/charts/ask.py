"""Turns the options of `charts` into its question: which GPUs, on which work, against which card, at which prices."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from gpuwise.advise.candidates import whole
from gpuwise.advise.jobs import Job, stand_ins
from gpuwise.core.errors import UnknownName
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.money.costs import DEFAULT_REGION, MACHINE_USD, Tariff, find_region, flat, of_region, own
from gpuwise.money.prices import PriceBook
from gpuwise.money.types import Price
from gpuwise.questions.charts.options import ChartsOptions
from gpuwise.questions.common.gpu_list import GpuQuery, gpu_query
from gpuwise.questions.common.options import names

__all__ = ["MACHINE_WATTS", "WORK", "ChartsQuery", "Owning", "Work", "ask"]

_BASELINE = "RTX 3090"  # long on the market, measured often, and with memory enough for every kind of work
MACHINE_WATTS = 100.0  # the rest of a desktop while it works, assumed


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A kind of work: the job that stands for it, its precisions, and its software where that is not the usual one."""

    name: str
    title: str
    job: Job
    precisions: tuple[str, ...] = ("fp32", "16 bit")
    stack: str = ""


WORK = tuple(
    Work(
        name=one.name,
        title=one.title,
        job=Job(model=one.model, samples=1.0, batch=one.batch, seq=one.seq, mode=one.mode, phase=one.phase),
        precisions=one.precisions,
        stack=one.stack,
    )
    for one in stand_ins("charts")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owning:
    """What a card costs beside its price: the rest of a desktop, and electricity while it works."""

    years: float = 5.0
    utilization: float = 0.15
    machine_usd: float = MACHINE_USD
    tariff: Tariff

    def total_usd(self, gpu: Gpu, price: Price | None) -> float | None:
        """All of it over the years; None where the price or the power is unknown. A laptop, or a chip with a CPU, needs no
        other machine."""
        if price is None or gpu.tdp_watts is None:
            return None
        machine_usd, machine_watts = (0.0, 0.0) if whole(gpu) else (self.machine_usd, MACHINE_WATTS)
        kept = own(
            price_usd=price.usd,
            watts=gpu.tdp_watts + machine_watts,
            utilization=self.utilization,
            years=self.years,
            tariff=self.tariff,
            machine_usd=machine_usd,
        )
        return kept.total_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartsQuery:
    """Which GPUs, on which work, against which card, at which prices; `long_tail` where all of the catalogue is charted."""

    filters: GpuQuery
    segments: tuple[str, ...] = ()
    long_tail: bool = False
    work: tuple[Work, ...] = WORK
    baseline: Gpu
    book: PriceBook
    owning: Owning


def ask(options: ChartsOptions, *, today: date | None = None) -> ChartsQuery:
    """The question as typed, checked."""
    book = PriceBook.of(prices=names(options.price), file=options.prices, currency=options.currency, today=today)
    rate = book.currency.usd_per_unit
    kwh_price, machine = options.kwh_price, options.machine
    return ChartsQuery(
        filters=gpu_query(names(options.gpu), vendor=options.vendor, year=options.year, min_memory=options.min_memory),
        segments=_parse_segments(options.segment),
        long_tail=options.all,
        work=tuple(_find_work(name) for name in _split(options.work)) or WORK,
        baseline=load_catalog().find(options.baseline or _BASELINE).gpu,
        book=book,
        owning=Owning(
            years=options.years,
            utilization=options.utilization,
            machine_usd=MACHINE_USD if machine is None else machine * rate,
            tariff=of_region(find_region(DEFAULT_REGION).electricity) if kwh_price is None else flat(kwh_price * rate),
        ),
    )


def _split(text: str) -> list[str]:
    """Names separated by commas, without duplicates."""
    return list(dict.fromkeys(part.strip().lower() for part in text.split(",") if part.strip()))


def _parse_segments(text: str) -> tuple[str, ...]:
    known = sorted({gpu.segment for gpu in load_catalog().curated})
    for name in _split(text):
        if name not in known:
            raise UnknownName(f"unknown segment '{name}'", known=", ".join(known), hint="try `--segment desktop`")
    return tuple(_split(text))


def _find_work(name: str) -> Work:
    found = {work.name: work for work in WORK}
    if name not in found:
        raise UnknownName(f"unknown kind of work '{name}'", known=", ".join(found), hint="try `--work cnn,llm`")
    return found[name]
