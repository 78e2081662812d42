"""The chart for `fit`: what fills the memory of a GPU, and how much memory the step needs with each remedy."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.advise.types import Rung
from gpuwise.core.units import GIB
from gpuwise.questions.fit.types import Fit, FitAnswer
from gpuwise.render.chart import Axis, Bar, Bars, Figure, Segment
from gpuwise.step.memory.peak import Memory

__all__ = ["memory_figure"]

_KINDS = ("weights", "gradients", "optimizer", "activations and temporaries", "libraries and allocator")


def memory_figure(answer: FitAnswer) -> Figure:
    """One GPU with its remedies, or several GPUs."""
    first, alone = answer.results[0], len(answer.results) == 1
    how = ", ".join(
        filter(None, (first.mode, first.precision, f"batch {first.batch}", f"sequence {first.seq}" if first.seq else ""))
    )
    bars = _one(first) if alone else [bar for result in answer.results for bar in _of(result)]
    longest = max(sum(segment.value for segment in bar.segments) for bar in bars)
    axis = Axis(title="GiB of GPU memory", low=0.0, high=max([longest, *(bar.high or 0.0 for bar in bars)]) * 1.02)
    fits = "fits" if first.fits else "does not fit"
    return Figure(
        title=f"{answer.model} on {first.gpu.name}: {fits}" if alone else f"{answer.model} on {len(answer.results)} GPUs",
        subtitle=how,
        panels=(Bars(title="Peak memory during a step", axis=axis, bars=tuple(bars), share=1.0),),
        legend=tuple((name, place) for place, name in enumerate(_KINDS)),
        footer=f"gpuwise fit. Lines: the range expected to contain 80% of measurements. Faint bars: too large. "
        f"Data from {answer.data_date}.",
    )


def _of(result: Fit) -> list[Bar]:
    """What a GPU has, and what the step needs there."""
    has = result.room.usable_bytes / GIB
    room = Bar(
        label=result.gpu.name, segments=(Segment(value=has, tip=f"{result.gpu.name}: {has:.1f} GiB"),), note=f"has {has:.1f} GiB"
    )
    note = f"needs {result.memory.total_bytes / GIB:.1f} GiB, largest batch {result.max_batch:,}"
    return [room, _bar("the step", result.memory, note, fits=True, ranged=True)]


def _one(result: Fit) -> list[Bar]:
    """The GPU, the step, every remedy alone, and the ladder."""
    peak = result.memory.total_bytes
    alone = [rung for rung in result.advice.remedies if rung.memory.total_bytes < peak and rung.name != "bigger-gpu"]
    bars = _of(result)
    if alone:
        bars += [Bar(label="alone"), *_rungs(alone)]
    if result.advice.ladder:
        bars += [Bar(label="together"), *_rungs(result.advice.ladder)]
    return bars


def _rungs(rungs: Sequence[Rung]) -> list[Bar]:
    return [
        _bar(rung.title, rung.memory, f"{rung.memory.total_bytes / GIB:.1f} GiB, {rung.cost:.2f}x the time", fits=rung.fits)
        for rung in rungs
    ]


def _bar(label: str, memory: Memory, note: str, *, fits: bool, ranged: bool = False) -> Bar:
    held = (
        memory.weight_bytes,
        memory.gradient_bytes,
        memory.optimizer_bytes,
        memory.activation_bytes,
        memory.workspace_bytes + memory.framework_bytes,
    )
    segments = tuple(
        Segment(value=value / GIB, colour=place, tip=f"{label}: {_KINDS[place]} {value / GIB:.1f} GiB")
        for place, value in enumerate(held)
        if value > 0
    )
    ends = (memory.low_bytes / GIB, memory.high_bytes / GIB) if ranged else (None, None)
    return Bar(label=label, segments=segments, low=ends[0], high=ends[1], note=note, faint=not fits)
