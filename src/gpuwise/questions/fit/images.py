"""What a program that makes images needs beside its denoiser, which is the part that `fit` checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuwise.core.text import both, the
from gpuwise.core.units import GIB
from gpuwise.engine.images import draw
from gpuwise.questions.common.step import StepQuery
from gpuwise.questions.fit.types import Fit
from gpuwise.workload.store.pipelines import makes_images, pipeline_of

__all__ = ["image_notes"]


def image_notes(query: StepQuery, results: Sequence[Fit]) -> tuple[str, ...]:
    """One note on all parts at once, where a whole program was named and makes images."""
    model = query.capture.request.model
    pipeline = pipeline_of(model) if makes_images(model) and results[0].mode == "infer" else None
    if pipeline is None:
        return ()
    run, gpus = replace(query.run, gpu_count=1, gpu_link=""), [result.gpu for result in results]
    drawn = draw(pipeline, gpus, run, precision=results[0].precision, images=query.batch or 1, step_count=1)
    needs = [drawn.memory(place).total_bytes for place in range(len(gpus))]
    rooms = [result.room.usable_bytes for result in results]
    short = [place for place, need in enumerate(needs) if need > rooms[place]]
    most = max(needs[place] for place in short) if short else max(needs)
    head = f"these numbers are for the denoiser; all parts of {model} at once need {most / GIB:.1f} GiB"
    if not short:
        return (f"{head}, which also fits",)
    names = both(the(gpus[place].name) for place in short)
    alone = max(drawn.largest_part_bytes(place) for place in short)
    if all(drawn.largest_part_bytes(place) <= rooms[place] for place in short):
        return (f"{head}, which is too much for {names}, so the program must unload the text encoders and the decoder",)
    return (f"{head}, and even the largest part alone needs {alone / GIB:.1f} GiB, which is too much for {names}",)
