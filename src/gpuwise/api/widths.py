"""How wide the range of an answer is: by the GPU, what the user measured, what of the model is understood, and the loader."""

from __future__ import annotations

from functools import reduce

from gpuwise.api.question import StepQuery
from gpuwise.evidence.ranges import Range, pair_range, step_range
from gpuwise.hardware.types import Gpu
from gpuwise.step.types import Steps

__all__ = ["loaded", "repeated", "width_of"]

_UNKNOWN_WIDENS = 5.0  # an op priced by its bytes alone can be several times off
_REPEATS = 1.03  # a number of the user's own, taken again: another node with the same GPU and code moves a step by up to 2.9 %


def repeated() -> Range:
    """The range of what the user measured, measured again."""
    return Range(low=1 / _REPEATS, high=_REPEATS, rows=1)


def width_of(query: StepQuery, gpu: Gpu, bound: str, covered: float) -> Range:
    """The range for this question: wider where little of the model is understood. From a step measured on another GPU it is that
    of the ratio between the two."""
    measured = [one for one, _ in query.measured]
    if not measured or gpu.is_cpu or (bound == "launch" and not any(one.is_cpu for one in measured)):
        width = step_range(gpu, bound)
    else:
        width = reduce(Range.around, (pair_range(one, gpu) for one in measured))
    return width.widened(1.0 + _UNKNOWN_WIDENS * max(0.0, 0.98 - covered))


def loaded(query: StepQuery, steps: Steps, width: Range) -> Range:
    """The range where a loader has a rate: each end waits for the loader too, at its best and at its worst."""
    if query.setting.loader_samples_per_s is None:
        return width
    slowest, fastest = (query.decoder.low, query.decoder.high) if query.decoder else (1 / _REPEATS, _REPEATS)
    lanes = {name: float(lane[0, 0]) for name, lane in steps.lanes.items()}
    loading, seconds = lanes.pop("input"), float(steps.seconds[0, 0])
    rest = max(lanes.values())
    low = max(rest * width.low, loading / fastest) / seconds
    high = max(rest * width.high, loading / slowest) / seconds
    return Range(low=min(1.0, low), high=max(1.0, high), rows=width.rows)
