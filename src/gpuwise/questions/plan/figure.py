"""The chart for `plan`: what a step consists of under each plan, and what more GPUs bring."""

from __future__ import annotations

import re

from gpuwise.core.errors import BadValue
from gpuwise.core.units import format_si
from gpuwise.questions.plan.types import PlanAnswer, PlanEntry
from gpuwise.questions.plan.words import describe_plan
from gpuwise.render.chart import Axis, Bar, Bars, Figure, Line, Mark, Plot, Segment, Series
from gpuwise.render.text import range_words

__all__ = ["plans_figure"]

_PARTS = {
    "compute": "compute_s",
    "recomputation": "recompute_s",
    "optimizer": "update_s",
    "waiting for communication": "exposed_comm_s",
    "pipeline bubbles": "bubble_s",
    "waiting for the host or slower GPUs": "wait_s",
}
_GROWTH = (("fixed batch", "samples_per_s"), ("batch scaled with the GPUs", "weak_samples_per_s"))


def plans_figure(answer: PlanAnswer) -> Figure:
    """The time of each plan, and beside it throughput by number of GPUs where that was predicted."""
    if not answer.entries:
        raise BadValue(
            "no plan fits, so there is nothing to draw",
            hint="leave out `--figure` to see which cluster the model would fit on",
        )
    grown, entries = _growth(answer), _whole(answer)
    used = [part for part, name in _PARTS.items() if any(getattr(entry.estimate, name) > 0 for entry in entries)]
    legend = [(part, place) for place, part in enumerate(_PARTS) if part in used]
    legend += [(one.label, one.colour) for one in grown.series] if grown is not None else []
    ranges = range_words(note.name.removesuffix(" range") for note in answer.assumptions if note.code == "device_range")
    return Figure(
        title=f"{answer.model} on {answer.cluster.name}",
        subtitle=f"train, {answer.precision}, global batch {answer.batch:,}; recommended: {describe_plan(answer.recommended)}",
        panels=(_steps(entries), *([grown] if grown is not None else [])),
        legend=tuple(legend),
        footer=f"gpuwise plan. Lines: {ranges}. Data from {answer.data_date}.",
    )


def _whole(answer: PlanAnswer) -> list[PlanEntry]:
    """Plans on all GPUs, and the recommended one; others on fewer take so much longer that they would dwarf the rest."""
    return [entry for entry in answer.entries if entry.gpu_count == answer.cluster.gpu_count or entry is answer.recommended]


def _steps(entries: list[PlanEntry]) -> Bars:
    bars = tuple(_bar(entry) for entry in entries)
    axis = Axis(title="time per step", low=0.0, high=max(entry.high_s for entry in entries) * 1.02, unit="s")
    return Bars(title="Shorter is better", axis=axis, bars=bars, share=0.6)


def _bar(entry: PlanEntry) -> Bar:
    segments = []
    for place, (part, name) in enumerate(_PARTS.items()):
        seconds = getattr(entry.estimate, name)
        if seconds > 0:
            segments.append(Segment(value=seconds, colour=place, tip=f"{part}: {format_si(seconds, 's')}"))
    return Bar(
        label=_short(describe_plan(entry)),
        segments=tuple(segments),
        low=entry.low_s,
        high=entry.high_s,
        note=", ".join([format_si(entry.estimate.step_s, "s"), *entry.labels]),
    )


def _short(name: str) -> str:
    """A plan without its micro-batches.

    >>> _short("4-way data parallelism, 2 micro-batches of 8, full recomputation")
    '4-way data parallelism, full recomputation'
    """
    return re.sub(r", (\d+|one) micro-batch(es)? of \d+( \([^)]*\))?", "", name)


def _growth(answer: PlanAnswer) -> Plot | None:
    rows = answer.scaling()
    series = []
    for place, (title, key) in enumerate(_GROWTH, start=len(_PARTS)):
        marks = tuple(
            Mark(x=row["gpu_count"], y=row[key], tip=f"{row['gpu_count']} GPUs, {title}: {row[key]:,.0f} samples/s")
            for row in rows
            if row[key]
        )
        if len(marks) > 1:
            series.append(Series(label=title, colour=place, marks=marks))
    if not series:
        return None
    lines = [Line(points=tuple((mark.x, mark.y) for mark in one.marks), colour=one.colour) for one in series]
    first, last = series[0].marks[0], series[0].marks[-1]
    perfect = Line(points=((first.x, first.y), (last.x, first.y * last.x / first.x)), dashed=True)
    values = [mark.y for one in series for mark in one.marks] + [perfect.points[1][1]]
    return Plot(
        title="Samples per second by number of GPUs; dashed: ideal scaling",
        x=Axis(title="GPUs", low=first.x / 1.15, high=last.x * 1.15, log=True),
        y=Axis(title="samples per second", low=min(values) / 1.3, high=max(values) * 1.3, log=True),
        series=tuple(series),
        lines=(*lines, perfect),
        share=0.4,
    )
