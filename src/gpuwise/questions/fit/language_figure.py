"""The chart for `fit` on text generation: what fills the memory of a GPU, and how much each remedy leaves free, with tokens
per second.
"""

from __future__ import annotations

from gpuwise.advise.language_remedies import LanguageRung
from gpuwise.core.units import GIB
from gpuwise.questions.common.gpu_list import set_name
from gpuwise.questions.fit.language_types import LanguageFit, LanguageFitAnswer
from gpuwise.render.chart import Axis, Bar, Bars, Figure, Segment
from gpuwise.step.memory.peak import Memory

__all__ = ["language_memory_figure"]

_KINDS = ("weights", "key-value cache", "activations", "engine")


def language_memory_figure(answer: LanguageFitAnswer) -> Figure:
    """One GPU with its remedies, or several GPUs."""
    results = [result for result in answer.results if isinstance(result, LanguageFit)]
    first, alone = results[0], len(results) == 1
    told = first.generation
    bars = [bar for result in results for bar in _of(result)]
    if alone and first.rungs:
        bars += [Bar(label="alone"), *(_rung(rung) for rung in first.rungs if rung.name != "bigger-gpu")]
    if alone and first.climbed:
        bars += [Bar(label="together"), *(_rung(rung) for rung in first.climbed)]
    longest = max(sum(segment.value for segment in bar.segments) for bar in bars)
    verdict = "fits" if first.fits else "does not fit"
    each = " on each GPU" if first.gpu_count > 1 else ""
    return Figure(
        title=f"{answer.model} on {_name(first)}: {verdict}" if alone else f"{answer.model} on {len(results)} GPUs",
        subtitle=f"{told.weights} in {told.engine}, users: {told.users}, prompt {told.prompt:,}, output {told.output:,} tokens",
        panels=(
            Bars(
                title=f"Memory during text generation{each}",
                axis=Axis(title="GiB of GPU memory", low=0.0, high=longest * 1.02),
                bars=tuple(bars),
                share=1.0,
            ),
        ),
        legend=tuple((name, place) for place, name in enumerate(_KINDS)),
        footer=f"gpuwise fit. Faint bars: too large. Data from {answer.data_date}.",
    )


def _name(result: LanguageFit) -> str:
    return set_name(result.gpu, result.gpu_count)


def _of(result: LanguageFit) -> list[Bar]:
    """What a GPU has, and what the model needs there."""
    has, name = result.room.usable_bytes / GIB, _name(result)
    room = Bar(label=name, segments=(Segment(value=has, tip=f"{name}: {has:.1f} GiB"),), note=f"has {has:.1f} GiB")
    speed = f", {_rate(result.generation.tokens_per_s)} tokens/s" if result.fits else ""
    note = f"needs {result.memory.total_bytes / GIB:.1f} GiB{speed}"
    return [room, _bar("as requested", result.memory, note, fits=result.fits)]


def _rung(rung: LanguageRung) -> Bar:
    speed = f", {_rate(rung.tokens_per_s)} tokens/s" if rung.fits else ""
    return _bar(rung.title, rung.memory, f"{rung.memory.total_bytes / GIB:.1f} GiB{speed}", fits=rung.fits)


def _bar(label: str, memory: Memory, note: str, *, fits: bool) -> Bar:
    active = memory.activation_bytes - memory.kv_cache_bytes
    held = (memory.weight_bytes, memory.kv_cache_bytes, active, memory.framework_bytes)
    segments = tuple(
        Segment(value=value / GIB, colour=place, tip=f"{label}: {_KINDS[place]} {value / GIB:.1f} GiB")
        for place, value in enumerate(held)
        if value > 0
    )
    return Bar(label=label, segments=segments, note=note, faint=not fits)


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
