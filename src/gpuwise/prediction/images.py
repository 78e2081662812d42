"""Predicts image generation from text: the text encoders run once, the denoiser at every step, the decoder for every image.

Each part is an ordinary step of a model (`steps.py`), and an image takes the sum of all parts. If a GPU can hold each part but
not all of them at once, programs keep the weights on the host and load those of each part when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from gpuwise.evidence.fits import shipped
from gpuwise.evidence.ranges import Range, report_range
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.run import Run
from gpuwise.prediction.steps import Steps, link_bytes_per_s, predict_steps
from gpuwise.prediction.ways import BYTES_A_WEIGHT, as_computed, room_of
from gpuwise.step.memory.peak import Memory
from gpuwise.step.types import Array
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.types import Settings, Workload
from gpuwise.workload.store import zoo
from gpuwise.workload.store.pipelines import PATCH, Pipeline
from gpuwise.workload.transform.packed import quantised

__all__ = ["PACKED", "Drawings", "draw"]

PACKED = {"int8": "int8", "fp8": "int8", "q8_0": "int8", "int4": "int4", "nf4": "int4", "q4_0": "int4"}  # how weights are stored
_LARGE = 1e9  # parameters: smaller models stay in 16 bits
_STREAMED = 0.9  # of a part's weights at most: the layer that runs stays on the GPU, assumed


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawings:
    """The prediction for `images` images at once, in `step_count` denoising steps, on each of several GPUs; arrays have one
    entry per GPU.
    """

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
        """One denoising step for all images, including guidance and control networks."""
        found: Array = sum((one.step_s[0] for one in self.controls), self.denoiser.step_s[0])
        return found

    @cached_property
    def call_s(self) -> Array:
        """Time from a prompt to its images."""
        texts = sum((one.step_s[0] for one in self.texts), np.zeros(len(self.denoiser.gpus)))
        models: Array = texts + self.step_count * self.iteration_s + self.decoder.step_s[0]
        return models + self.program_s + self.moved_s

    def width(self, place: int) -> Range:
        """The range of measured over predicted time on this GPU. Unless the user measured it, the range also covers the reports
        of single users of web interfaces, because the settings of such programs differ.
        """
        ends = self.denoiser.widths
        own = Range(low=float(ends.low[0, place]), high=float(ends.high[0, place]), rows=int(ends.rows[0, place]))
        return own if self.denoiser.run.measured else own.around(report_range(self.denoiser.gpus[place]))

    @property
    def program_s(self) -> float:
        """The time of a program outside its models in a call, fitted to whole calls."""
        from gpuwise.evidence.images import SCRIPT  # reads measurements, which few questions need

        return shipped().call_s.get(SCRIPT, 0.0)

    @cached_property
    def moved_s(self) -> Array:
        """The time to load the weights of every part onto the GPU in a call, if they do not all stay there."""
        return np.array([self.loading_s(place) * self.moves(place) for place in range(len(self.denoiser.gpus))])

    def loading_s(self, place: int) -> float:
        """The time to load the weights of every part onto this GPU."""
        return self._weights(place) / link_bytes_per_s(self.denoiser.gpus[place])

    def moves(self, place: int) -> bool:
        """Whether the parts take turns on this GPU, because it can hold each of them but not all at once."""
        room = room_of(self.denoiser.gpus[place]).usable_bytes
        return self.at_once(place).total_bytes > room >= self.largest_part(place).total_bytes

    def memory(self, place: int) -> Memory:
        """The memory on the GPU: all models or, if they take turns, the one that needs the most."""
        return self.largest_part(place) if self.moves(place) else self.at_once(place)

    def fits(self, place: int) -> bool:
        """Whether the call fits in the memory of this GPU."""
        return self.memory(place).total_bytes <= room_of(self.denoiser.gpus[place]).usable_bytes

    def at_once(self, place: int) -> Memory:
        """The memory with all models loaded: the part that needs the most, plus the weights of the others."""
        most = max(self._parts(place), key=lambda part: part.total_bytes - part.weight_bytes)
        return _with_weights(most, self._weights(place))

    def largest_part(self, place: int) -> Memory:
        """The model that needs the most memory while the others are unloaded. A control net stays with its denoiser."""
        own = [_with_weights(part, part.weight_bytes + self._control_weights(place)) for part in self._parts(place)[:1]]
        return max((*own, *self._parts(place)), key=lambda part: part.total_bytes)

    def streamed(self, place: int) -> tuple[Memory, float] | None:
        """The memory of the largest part and the time for each call, if every part keeps only as much of its weights on this GPU
        as there is room for, and copies the rest from RAM each time it runs. None if even that is not enough.
        """
        gpu, worst, seconds = self.denoiser.gpus[place], self.largest_part(place), self.loading_s(place)
        for part, runs in zip(self._parts(place), self._runs, strict=True):
            over = max(0.0, part.total_bytes - room_of(gpu).usable_bytes)
            if over > _STREAMED * part.weight_bytes:
                return None
            seconds += runs * over / link_bytes_per_s(gpu)
            if over and part.total_bytes >= worst.total_bytes:
                worst = _with_weights(part, part.weight_bytes - over)
        return worst, seconds

    @property
    def _runs(self) -> list[int]:
        """How often each part runs in a call."""
        return [self.step_count] * (1 + len(self.controls)) + [1] * (len(self.texts) + 1)

    def held_bytes(self, images: int, place: int) -> float:
        """The minimum memory for this many images at once on this GPU, with the parts taking turns."""
        gpu, seen = self.denoiser.gpus[place], self.pipeline.passes * images
        return max(
            self.denoiser.needs.total_bytes(gpu, seen) + self._control_weights(place),
            self.decoder.needs.total_bytes(gpu, images),
            *(one.memory(0, place).total_bytes for one in self.texts),
        )

    def _weights(self, place: int) -> float:
        return sum(part.weight_bytes for part in self._parts(place))

    def _control_weights(self, place: int) -> float:
        return sum(one.memory(0, place).weight_bytes for one in self.controls)

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
    weights: str = "",
) -> Drawings:
    """Predict this many images at once, with this side in pixels or the default one, on each of these GPUs. Large models may
    store their `weights` in fewer bits.
    """
    side = image or pipeline.image
    seen = pipeline.passes * images

    def steps(name: str, batch: int) -> Steps:
        return predict_steps(_workload(name, precision, side, pipeline.tokens, weights), gpus, run, [batch])

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


@lru_cache(maxsize=64)
def _workload(name: str, precision: str, side: int, tokens: int, weights: str) -> Workload:
    """Return a model at the size of the image: for a transformer, in patches; for a text encoder with a sequence, in the tokens
    it reads.
    """
    settings = Settings(mode="infer", precision=precision, optimizer="none")
    found = zoo.entry(name)
    loaded = as_computed(zoo.load(name, Request(model=name, image=side if found.image else None, settings=settings)))
    if weights and found.parameters >= _LARGE:
        loaded = quantised(loaded, BYTES_A_WEIGHT[PACKED[weights]])
    if found.seq is None:
        return loaded
    return loaded.sized(seq=tokens if name.endswith("_text") else (side // PATCH) ** 2)
