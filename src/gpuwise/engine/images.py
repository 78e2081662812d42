"""Images from a text: the text encoders once, the denoiser at every step, the decoder for every image.

Each part is a step of a model like any other (`steps.py`); an image takes the sum of them, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpuwise.engine.run import Run
from gpuwise.engine.steps import Steps, predict_steps
from gpuwise.evidence.fits import shipped
from gpuwise.evidence.images import SCRIPT
from gpuwise.hardware.types import Gpu
from gpuwise.step.memory.peak import Memory
from gpuwise.step.types import Array
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.types import Settings, Workload
from gpuwise.workload.store import zoo
from gpuwise.workload.store.pipelines import PATCH, Pipeline

__all__ = ["Drawings", "draw"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawings:
    """`images` at once in `step_count` denoising steps on each of some GPUs; arrays have a place for each."""

    pipeline: Pipeline
    images: int
    step_count: int
    image: int
    denoiser: Steps
    controls: tuple[Steps, ...]
    texts: tuple[Steps, ...]
    decoder: Steps

    @cached_property
    def iteration_s(self) -> Array:
        """One denoising step of all images, with guidance and what steers it."""
        found: Array = sum((one.step_s[0] for one in self.controls), self.denoiser.step_s[0])
        return found

    @cached_property
    def call_s(self) -> Array:
        """From a prompt to its images."""
        texts = sum((one.step_s[0] for one in self.texts), np.zeros(len(self.denoiser.gpus)))
        found: Array = texts + self.step_count * self.iteration_s + self.decoder.step_s[0] + self.program_s
        return found

    @property
    def program_s(self) -> float:
        """What a program does beside its models in a call, fitted on whole calls."""
        return shipped().call_s.get(SCRIPT, 0.0)

    def memory(self, place: int) -> Memory:
        """With all models in memory: the part that needs most, and the weights of the others."""
        parts = self._parts(place)
        weights = sum(part.weight_bytes for part in parts)
        most = max(parts, key=lambda part: part.total_bytes - part.weight_bytes)
        return _with_weights(most, weights)

    def largest_part_bytes(self, place: int) -> float:
        """What the model that needs most holds by itself, with the others out of memory."""
        return max(part.total_bytes for part in self._parts(place))

    def _parts(self, place: int) -> list[Memory]:
        return [steps.memory(0, place) for steps in (self.denoiser, *self.controls, *self.texts, self.decoder)]


def _with_weights(memory: Memory, weights: float) -> Memory:
    more = weights - memory.weight_bytes
    ends = {name: getattr(memory, name) + more for name in ("allocated_bytes", "reserved_bytes", "low_bytes", "high_bytes")}
    return replace(memory, weight_bytes=weights, **ends)


def draw(
    pipeline: Pipeline,
    gpus: Sequence[Gpu],
    run: Run,
    *,
    precision: str,
    images: int,
    step_count: int,
    image: int | None = None,
) -> Drawings:
    """So many images at once, of this side in pixels or the usual one, on each of these GPUs."""
    side = image or pipeline.image
    seen = pipeline.passes * images

    def steps(name: str, batch: int) -> Steps:
        return predict_steps(_workload(name, precision, side, pipeline.tokens), gpus, run, [batch])

    return Drawings(
        pipeline=pipeline,
        images=images,
        step_count=step_count,
        image=side,
        denoiser=steps(pipeline.denoiser, seen),
        controls=tuple(steps(name, seen) for name in (pipeline.control,) if name),
        texts=tuple(steps(name, pipeline.passes) for name in pipeline.texts),
        decoder=steps(pipeline.decoder, images),
    )


def _workload(name: str, precision: str, side: int, tokens: int) -> Workload:
    """A model at the size of the image: of a transformer, patches; of a text encoder with a sequence, the tokens it reads."""
    settings = Settings(mode="infer", precision=precision, optimizer="none")
    found = zoo.entry(name)
    loaded = zoo.load(name, Request(model=name, image=side if found.image else None, settings=settings))
    if found.seq is None:
        return loaded
    return loaded.sized(seq=tokens if name.endswith("_text") else (side // PATCH) ** 2)
