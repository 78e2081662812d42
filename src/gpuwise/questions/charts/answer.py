"""How fast is every GPU, and how fast for its price? Five kinds of work in their usual precisions, relative to one card."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, ClassVar

import msgspec

from gpuwise.advise.candidates import price_for
from gpuwise.advise.jobs import JobPace
from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, as_dicts
from gpuwise.core.text import the
from gpuwise.evidence.ranges import knows
from gpuwise.hardware.types import Gpu, has_matrix_cores
from gpuwise.money.prices import data_date, price_now
from gpuwise.money.types import Price
from gpuwise.questions.charts.ask import ChartsQuery, Work, ask
from gpuwise.questions.charts.options import ChartsOptions
from gpuwise.questions.charts.words import notes
from gpuwise.questions.common.gpu_list import listed
from gpuwise.questions.common.jobs import Asked, price_jobs
from gpuwise.questions.common.options import Shown
from gpuwise.questions.face import face

__all__ = ["PRECISIONS", "ChartRow", "ChartsAnswer", "answer", "chart_gpus", "charts"]

PRECISIONS = ("fp32", "16 bit", "8 bit", "4 bit")  # the last two: weights only, computed with in 16 bit


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRow:
    """One GPU. `samples_per_s` by kind of work and precision contains only what fits; a `price` of None is unknown."""

    gpu: Gpu
    known: bool  # whether GPUs of its generation were measured
    samples_per_s: Mapping[str, Mapping[str, float]]
    price: Price | None
    owned_usd: float | None  # with machine and electricity over the years
    today: bool  # whether that is a price of today, not one of an old launch

    @property
    def label(self) -> str:
        """Its name, with a mark if no GPU of its generation was measured."""
        return self.gpu.name + ("" if self.known else " *")

    def cost_usd(self, *, owned: bool) -> float | None:
        """Its price, or with `owned` its total cost over the years."""
        return self.owned_usd if owned else self.price.usd if self.price else None

    def best(self, work: str) -> float | None:
        """In the fastest precision that fits."""
        return max(self.samples_per_s.get(work, {}).values(), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartsAnswer(Shown):
    """The GPUs, fastest first. Speeds are relative to the baseline in its fastest precision, for each kind of work."""

    TEXT: ClassVar[str] = "questions.charts.text.render"
    FIGURE: ClassVar[str] = "questions.charts.figure.charts_figure"

    query: ChartsQuery
    baseline: ChartRow
    rows: tuple[ChartRow, ...]
    assumptions: tuple[Assumption, ...]
    data_date: date

    def speed(self, row: ChartRow, work: str, precision: str = "") -> float | None:
        """Speed relative to the baseline, in the fastest precision if none is named."""
        rate = row.samples_per_s.get(work, {}).get(precision) if precision else row.best(work)
        base = self.baseline.best(work)
        return rate / base if rate and base else None

    def mean(self, row: ChartRow) -> float | None:
        """The geometric mean over the kinds of work that fit."""
        speeds = [speed for work in self.query.work if (speed := self.speed(row, work.name))]
        return math.exp(sum(map(math.log, speeds)) / len(speeds)) if speeds else None

    def per_price(self, row: ChartRow, *, owned: bool = False) -> float | None:
        """The factor that turns a speed into speed for the price; it is 1 for the baseline. `owned` includes all costs."""
        base, own_cost = (one.cost_usd(owned=owned) for one in (self.baseline, row))
        return base / own_cost if base and own_cost else None

    def value(self, row: ChartRow, *, owned: bool = False) -> float | None:
        """The mean speed for the price, relative to the baseline."""
        mean, factor = self.mean(row), self.per_price(row, owned=owned)
        return mean * factor if mean and factor else None

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data."""
        return {
            "baseline": self.baseline.gpu.name,
            "work": [_work_dict(work) for work in self.query.work],
            "gpus": [self._row(row) for row in self.rows],
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }

    def _row(self, row: ChartRow) -> dict[str, Any]:
        price = row.price
        speeds = {work.name: {name: self.speed(row, work.name, name) for name in work.precisions} for work in self.query.work}
        return {
            "gpu": row.gpu.name,
            "vendor": row.gpu.vendor,
            "segment": row.gpu.segment,
            "launched_on": row.gpu.launched_on.isoformat() if row.gpu.launched_on else None,
            "memory_bytes": row.gpu.memory_bytes,
            "generation_measured": row.known,
            "samples_per_s": {work: dict(rates) for work, rates in row.samples_per_s.items()},
            "speed": speeds,
            "mean_speed": self.mean(row),
            "price_usd": price.usd if price else None,
            "price_kind": price.kind if price else None,
            "price_dated": price.dated.isoformat() if price else None,
            "price_is_of_today": row.today,
            "mean_speed_per_price": self.value(row),
            "owned_usd": row.owned_usd,
            "mean_speed_per_owned": self.value(row, owned=True),
        }


def answer(options: ChartsOptions, progress: Callable[[str], None] = lambda text: None) -> ChartsAnswer:
    """Every requested GPU on every kind of work."""
    return chart_gpus(ask(options), progress)


def chart_gpus(query: ChartsQuery, progress: Callable[[str], None] = lambda text: None) -> ChartsAnswer:
    """Every requested GPU on every kind of work."""
    base = query.baseline
    chosen = _chosen(query)
    every = list({gpu.name: gpu for gpu in (*chosen, base)}.values())
    rates: dict[str, dict[str, dict[str, float]]] = {gpu.name: {} for gpu in every}
    for work in query.work:
        progress(f"{work.title} on {len(every)} GPUs")
        for precision in work.precisions:
            for name, pace in _paces(work, precision, every).items():
                if pace.fits:
                    rates[name].setdefault(work.name, {})[precision] = pace.samples_per_s
    rows = {gpu.name: _row(gpu, rates[gpu.name], query) for gpu in every}
    missing = [work.title for work in query.work if not rows[base.name].best(work.name)]
    if missing:
        raise BadValue(
            f"{the(base.name)} cannot be the baseline, because {missing[0]} does not fit on it",
            hint="try `--baseline 'RTX 3090'`",
        )
    answer = ChartsAnswer(
        query=query,
        baseline=rows[base.name],
        rows=tuple(rows[gpu.name] for gpu in chosen if rates[gpu.name]),
        assumptions=notes(query),
        data_date=data_date(query.book),
    )
    return replace(answer, rows=tuple(sorted(answer.rows, key=lambda row: -(answer.mean(row) or 0.0))))


def _chosen(query: ChartsQuery) -> list[Gpu]:
    found, _ = listed(query.filters)
    if query.filters.names:
        return list({gpu.name: gpu for gpu in found}.values())
    kept = [
        gpu
        for gpu in found
        if (gpu.curated or query.long_tail) and (not query.segments or gpu.segment in query.segments) and not gpu.is_cpu
    ]
    if not kept:
        raise BadValue("no GPU matches these filters", hint="leave out `--year`, `--segment` or `--min-memory`")
    return kept


def _paces(work: Work, precision: str, every: Sequence[Gpu]) -> dict[str, JobPace]:
    """In 16 bit only where a GPU has matrix cores for it, unless there is nothing else. Packed weights run on any."""
    only_16 = "fp32" not in work.precisions
    able = [gpu for gpu in every if precision != "16 bit" or only_16 or has_matrix_cores(gpu)]
    way = {"8 bit": "int8", "4 bit": "int4"}.get(precision, "usual")
    asked = Asked(stack=work.stack, precision="fp32" if precision == "fp32" else "fp16" if only_16 and way == "usual" else "")
    return price_jobs([msgspec.structs.replace(work.job, ways=(way,))], able, asked)[0].paces


def _row(gpu: Gpu, rates: Mapping[str, Mapping[str, float]], query: ChartsQuery) -> ChartRow:
    price = price_now(gpu, query.book)
    return ChartRow(
        gpu=gpu,
        known=knows(gpu),
        samples_per_s=rates,
        price=price,
        owned_usd=query.owning.total_usd(gpu, price),
        today=price_for(gpu, query.book) is not None,
    )


def _work_dict(work: Work) -> dict[str, Any]:
    job = work.job
    return {"name": work.name, "title": work.title, "model": job.model, "mode": job.mode, "batch": job.batch, "seq": job.seq}


charts = face(ChartsOptions, answer)
