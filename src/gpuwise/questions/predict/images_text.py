"""Image generation as text: seconds per image first, then iterations per second, where the time goes, and memory."""

from __future__ import annotations

from gpuwise.core.units import format_si
from gpuwise.prediction.ways import room_of
from gpuwise.questions.common.media.images import ImageAnswer, ImagePrediction
from gpuwise.render.text import Column, bold, folded, join_notes, table, wrapped

__all__ = ["render"]

_GIB = 2**30


def render(answer: ImageAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """One sheet, or a table of GPUs."""
    results = [result for result in answer.results if isinstance(result, ImagePrediction)]
    body = _sheet(answer, results[0], width, colour) if len(results) == 1 else _side_by_side(answer, results, width, colour)
    said = folded([note for result in results for note in result.assumptions], verbose=verbose)
    said = [*(f"note: {note}" for note in answer.notes), *said]
    return body + join_notes([wrapped(line, width, "  ") for line in said])


def _head(answer: ImageAnswer, result: ImagePrediction, colour: bool) -> str:
    told = result.image_generation
    count = "one image" if told.images == 1 else f"{told.images:,} images at once"
    steps = "one step" if told.steps == 1 else f"{told.steps:,} steps"
    held = f" with {told.weights} weights" if told.weights else ""
    return f"{bold(answer.model, colour=colour)}  {result.precision}{held}, {told.image} pixels, {steps}, {count}"


def _sheet(answer: ImageAnswer, result: ImagePrediction, width: int | None, colour: bool) -> str:
    told = result.image_generation
    is_measured = result.range_basis == "measured"
    basis = "80% of measurements fall between" if is_measured else "assumed range:"
    low, high = (format_si(end, "s") for end in (told.seconds_per_image_low, told.seconds_per_image_high))
    ends = f"{low} {'and' if is_measured else 'to'} {high}"
    parts = (
        ("text", told.text_s),
        ("denoising", told.denoising_s),
        ("decoding", told.decoding_s),
        ("program overhead", told.program_s),
        ("moving weights", told.moved_s),
    )
    title = f"{_head(answer, result, colour)} on {bold(result.gpu.name, colour=colour)}"
    memory = wrapped(f"  memory     {_memory(result)}", width, " " * 13)
    if not result.fits:
        time = f"would be {format_si(told.seconds_per_image, 's')} per image if the model fitted   ({basis} {ends})"
        return f"{title}\n\n{memory}\n{wrapped(f'  time       {time}', width, ' ' * 13)}"
    lines = [
        title,
        "",
        f"  time       {format_si(told.seconds_per_image, 's')} per image   ({basis} {ends})",
        f"  speed      {told.it_per_s:.3g} it/s, {told.images_per_minute:.3g} images per minute",
        wrapped("  parts      " + ", ".join(f"{name} {format_si(took, 's')}" for name, took in parts if took), width, " " * 13),
        f"  limited by {result.bound}",
        memory,
    ]
    return "\n".join(lines)


def _memory(result: ImagePrediction) -> str:
    has, told = room_of(result.gpu).usable_bytes, result.image_generation
    needs = f"{_bytes(result.memory.total_bytes)} of {_bytes(has)}"
    if told.moved_s:
        return f"{needs}: fits with its parts loaded one after another (loaded all at once, they need {_bytes(told.all_bytes)})"
    verdict = "fits" if result.fits else "DOES NOT FIT, even with its parts loaded one after another"
    return f"{needs}: {verdict} (weights of all models {_bytes(result.memory.weight_bytes)})"


def _side_by_side(answer: ImageAnswer, results: list[ImagePrediction], width: int | None, colour: bool) -> str:
    told = [result.image_generation for result in results]
    columns = [
        Column(title="GPU", cells=[result.gpu.name for result in results], right=False),
        Column(title="per image", cells=[format_si(one.seconds_per_image, "s") for one in told]),
        Column(
            title="range",
            cells=[f"{format_si(one.seconds_per_image_low, 's')} – {format_si(one.seconds_per_image_high, 's')}" for one in told],
        ),
        Column(title="it/s", cells=[f"{one.it_per_s:.3g}" for one in told]),
        Column(title="images per minute", cells=[f"{one.images_per_minute:.3g}" for one in told]),
        Column(title="memory", cells=[_bytes(result.memory.total_bytes) for result in results]),
        Column(title="fits", cells=["yes" if result.fits else "NO" for result in results], right=False),
    ]
    return f"{_head(answer, results[0], colour)}\n\n{table(columns, width=width, colour=colour)}"


def _bytes(value: float) -> str:
    return f"{value / _GIB:.1f} GiB"
