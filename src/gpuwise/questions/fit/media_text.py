"""Whether a program that generates images or transcripts fits, as text: memory, speed, how many at once, and remedies."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.advise.types import Rung
from gpuwise.core.text import the
from gpuwise.core.units import GIB, format_si
from gpuwise.questions.common.media.images import ImagePrediction
from gpuwise.questions.fit.media_types import MediaFit, MediaFitAnswer
from gpuwise.questions.fit.text import bar_of
from gpuwise.render.text import WIDTH, Column, bold, folded, join_notes, table, wrapped

__all__ = ["render"]


def render(answer: MediaFitAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """One sheet, or a table of GPUs."""
    results = [result for result in answer.results if isinstance(result, MediaFit)]
    wide = width or WIDTH
    body = _sheet(answer, results[0], wide, colour) if len(results) == 1 else _side_by_side(answer, results, wide, colour)
    said = folded(results[0].assumptions, verbose=verbose)
    return body + join_notes([wrapped(line, width, "  ") for line in said])


def _head(answer: MediaFitAnswer, result: MediaFit, colour: bool) -> str:
    return f"{bold(answer.model, colour=colour)}  {_doing(result)}, {result.precision}{_held(result)}, {_size(result)}"


def _doing(result: MediaFit) -> str:
    return "generating images" if isinstance(result.told, ImagePrediction) else "transcribing"


def _held(result: MediaFit) -> str:
    weights = result.told.image_generation.weights if isinstance(result.told, ImagePrediction) else ""
    return f" with {weights} weights" if weights else ""


def _size(result: MediaFit) -> str:
    if not isinstance(result.told, ImagePrediction):
        return "one window of 30 s" if result.batch == 1 else f"{result.batch:,} windows of 30 s at once"
    said = result.told.image_generation
    count = "one image" if result.batch == 1 else f"{result.batch:,} images at once"
    return f"{said.image} pixels, {said.steps:,} {'step' if said.steps == 1 else 'steps'}, {count}"


def _sheet(answer: MediaFitAnswer, result: MediaFit, width: int, colour: bool) -> str:
    memory = result.memory
    parts = (
        ("W", "weights", memory.weight_bytes),
        ("A", "activations", memory.activation_bytes),
        ("L", "libraries and allocator", max(0.0, memory.total_bytes - memory.weight_bytes - memory.activation_bytes)),
    )
    lines = [
        f"{_head(answer, result, colour)} on {bold(result.gpu.name, colour=colour)}",
        "",
        wrapped(f"  {_verdict(result)}", width, "    "),
        f"  {bar_of([(letter, value) for letter, _, value in parts], result.room.usable_bytes)}",
        wrapped("  " + ", ".join(f"{letter} {title} {_bytes(value)}" for letter, title, value in parts), width, "    "),
        *([wrapped(f"  {_speed(result)}", width, "    ")] if result.fits else []),
        f"  largest number of {_unit(result)} at once: {result.max_batch:,}",
    ]
    if result.advice.remedies:
        lines += ["", _remedies(result, width, colour)]
    if result.advice.ladder:
        lines += ["", f"  The model fits {_way(result.advice.ladder[0])}."]
    elif not result.fits and result.advice.remedies:
        lines += ["", "  None of these remedies makes the model fit."]
    return "\n".join(lines)


def _unit(result: MediaFit) -> str:
    return "images" if isinstance(result.told, ImagePrediction) else "windows"


def _verdict(result: MediaFit) -> str:
    needs = f"needs {_bytes(result.memory.total_bytes)}"
    if not result.fits:
        return f"DOES NOT FIT: {needs}, but only {_bytes(result.room.usable_bytes)} is available"
    tight = "BARELY FITS" if result.memory.high_bytes > result.room.usable_bytes else "FITS"
    needs += f" of {_bytes(result.room.usable_bytes)}"
    if isinstance(result.told, ImagePrediction) and result.told.image_generation.moved_s:
        whole = _bytes(result.told.image_generation.all_bytes)
        return f"{tight}: {needs}, with its parts loaded one after another (loaded all at once, they need {whole})"
    return f"{tight}: {needs}"


def _speed(result: MediaFit) -> str:
    if isinstance(result.told, ImagePrediction):
        said = result.told.image_generation
        low, high = (format_si(end, "s") for end in (said.seconds_per_image_low, said.seconds_per_image_high))
        return f"speed: {format_si(said.seconds_per_image, 's')} per image ({low} to {high})"
    heard = result.told.transcription
    return f"speed: {heard.realtime:.3g} times real time ({heard.realtime_low:.3g} to {heard.realtime_high:.3g})"


def _remedies(result: MediaFit, width: int, colour: bool) -> str:
    rungs = result.advice.remedies
    rows: list[tuple[str, float, bool, float, int, str]] = [
        ("unchanged", result.memory.total_bytes, result.fits, result.step_s, result.max_batch, "")
    ]
    rows += [(one.title, one.memory.total_bytes, one.fits, one.step_s, one.max_batch, one.effect) for one in rungs]
    return table(
        [
            Column(title="  remedy", cells=[f"  {row[0]}" for row in rows], right=False),
            Column(title="memory", cells=[_bytes(row[1]) for row in rows]),
            Column(title="fits", cells=["yes" if row[2] else "no" for row in rows], right=False),
            Column(title="per image", cells=[format_si(row[3], "s") if row[2] else "-" for row in rows]),
            Column(title="at once", cells=[f"{row[4]:,}" for row in rows]),
            Column(title="changes", cells=[row[5] for row in rows], right=False),
        ],
        width=width,
        colour=colour,
    )


def _side_by_side(answer: MediaFitAnswer, results: Sequence[MediaFit], width: int, colour: bool) -> str:
    pictures = isinstance(results[0].told, ImagePrediction)
    columns = [
        Column(title="GPU", cells=[result.gpu.name for result in results], right=False),
        Column(title="needs", cells=[_bytes(result.memory.total_bytes) for result in results]),
        Column(title="has", cells=[_bytes(result.room.usable_bytes) for result in results]),
        Column(title="fits", cells=["yes" if result.fits else "NO" for result in results], right=False),
        Column(title="per image" if pictures else "times real time", cells=[_side_speed(result) for result in results]),
        Column(title="at once", cells=[f"{result.max_batch:,}" for result in results]),
    ]
    fixes = [
        wrapped(_describe_fix(result.gpu.name, result.advice.ladder[0]), width, "  ")
        for result in results
        if result.advice.ladder
    ]
    return f"{_head(answer, results[0], colour)}\n\n{table(columns, width=width, colour=colour)}" + join_notes(fixes)


def _describe_fix(gpu: str, rung: Rung) -> str:
    if rung.effect == "hardware":
        return f"the model does not fit on {the(gpu)}, but it fits {_way(rung)}"
    return f"the model fits on {the(gpu)} {_way(rung)}"


def _way(rung: Rung) -> str:
    """Return the GPU or the change with which the model fits."""
    return f"on {the(rung.gpu)}" if rung.effect == "hardware" else f"with {rung.title.replace(', ', ' and ')}"


def _side_speed(result: MediaFit) -> str:
    if not result.fits:
        return "-"
    if isinstance(result.told, ImagePrediction):
        return format_si(result.told.image_generation.seconds_per_image, "s")
    return f"{result.told.transcription.realtime:.3g}"


def _bytes(value: float) -> str:
    return f"{value / GIB:.1f} GiB"
