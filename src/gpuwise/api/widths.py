"""How wide the range of an answer is: by the GPU, what the user measured, what of the model is understood, and the loader."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from gpuwise.api.question import Assumption, StepQuery
from gpuwise.evidence.parallel import unknown_range
from gpuwise.evidence.ranges import Range, pair_range, step_range
from gpuwise.hardware.types import Gpu
from gpuwise.step.types import Steps

__all__ = ["limited", "loaded", "plan_width", "range_notes", "repeated", "width_of"]

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


def limited(low_s: Any, step_s: Any, least_s: Any) -> Any:
    """The low end of a range, not below what the hardware allows, nor above the prediction; of numbers or arrays."""
    return np.maximum(low_s, np.minimum(least_s, step_s))


def plan_width(query: StepQuery, gpus: Sequence[Gpu], bound: str, covered: float, *, divided: bool) -> Range:
    """The range of a plan on these GPUs: that of `predict` where only samples are divided; where more is (`divided`), one that
    also holds what published steps of split language models took."""
    alone = reduce(Range.around, (width_of(query, gpu, bound, covered) for gpu in gpus))
    return alone.around(unknown_range()) if divided else alone


def range_notes(alone: Range | None, divided: Range | None) -> list[Assumption]:
    """What the ranges of plans rest on, for those kinds of plans that are shown."""
    published = f"{unknown_range().rows:,} published steps of split language models"
    kinds = (
        ("range where samples alone are divided", alone, "holds 8 measured steps in 10, as in `gpuwise predict`"),
        ("range of other plans", divided, f"holds that, and 8 in 10 of {published}"),
    )
    return [
        {"name": name, "value": f"{one.low:.2f} to {one.high:.2f} times the step", "basis": "measured", "effect": effect}
        for name, one, effect in kinds
        if one is not None and one.rows
    ]


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
