"""Transcription as text: the multiple of real time first, then where the time goes, and memory."""

from __future__ import annotations

from gpuwise.core.units import format_si
from gpuwise.questions.common.media.speech import SpeechAnswer, SpeechPrediction
from gpuwise.questions.predict.text import MEANING, sized
from gpuwise.render.text import Column, bold, folded, join_notes, table, wrapped

__all__ = ["render"]


def render(answer: SpeechAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """One sheet, or a table of GPUs."""
    results = [result for result in answer.results if isinstance(result, SpeechPrediction)]
    body = _sheet(answer, results[0], width, colour) if len(results) == 1 else _side_by_side(answer, results, width, colour)
    said = folded([note for result in results for note in result.assumptions], verbose=verbose)
    return body + join_notes([wrapped(line, width, "  ") for line in said])


def _head(answer: SpeechAnswer, result: SpeechPrediction, colour: bool) -> str:
    count = result.transcription.windows
    windows = "one window of 30 s" if count == 1 else f"{count:,} windows of 30 s at once"
    return f"{bold(answer.model, colour=colour)}  transcribing, {result.precision}, {windows}"


def _sheet(answer: SpeechAnswer, result: SpeechPrediction, width: int | None, colour: bool) -> str:
    told = result.transcription
    is_measured = result.range_basis == "measured"
    basis = "80% of measurements fall between" if is_measured else "assumed range:"
    ends = f"{_times(told.realtime_low)} {'and' if is_measured else 'to'} {_times(told.realtime_high)}"
    each = f"{told.tokens_per_window} tokens at {format_si(told.token_s, 's')} each"
    parts = f"encoding {format_si(told.listening_s, 's')}, writing {format_si(told.writing_s, 's')} ({each})"
    lines = [
        f"{_head(answer, result, colour)} on {bold(result.gpu.name, colour=colour)}",
        "",
        f"  speed      {_times(told.realtime)} times real time   ({basis} {ends})",
        f"  one hour   of speech takes {format_si(told.hour_s, 's')}",
        wrapped(f"  parts      {parts}", width, " " * 13),
        wrapped(f"  limited by {MEANING[result.bound]}", width, " " * 13),
        wrapped(f"  memory     {sized(result)}", width, " " * 13),
    ]
    return "\n".join(lines)


def _side_by_side(answer: SpeechAnswer, results: list[SpeechPrediction], width: int | None, colour: bool) -> str:
    told = [result.transcription for result in results]
    columns = [
        Column(title="GPU", cells=[result.gpu.name for result in results], right=False),
        Column(title="times real time", cells=[_times(one.realtime) for one in told]),
        Column(title="range", cells=[f"{_times(one.realtime_low)} – {_times(one.realtime_high)}" for one in told]),
        Column(title="one hour takes", cells=[format_si(one.hour_s, "s") for one in told]),
        Column(title="memory", cells=[f"{result.memory.total_bytes / 2**30:.1f} GiB" for result in results]),
        Column(title="fits", cells=["yes" if result.fits else "NO" for result in results], right=False),
    ]
    return f"{_head(answer, results[0], colour)}\n\n{table(columns, width=width, colour=colour)}"


def _times(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
