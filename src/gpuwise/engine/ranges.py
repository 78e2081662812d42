"""How wide the range of a step is: by the GPU, what the user measured, what of the model is understood, and the loader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from gpuwise.core.provenance import Assumption, assumed
from gpuwise.engine.run import Measured, Run
from gpuwise.evidence.parallel import unknown_range
from gpuwise.evidence.ranges import Range, pair_range, step_range
from gpuwise.hardware.types import Gpu
from gpuwise.step.types import BOUNDS, Array, StepTimes

__all__ = ["Widths", "plan_width", "range_notes", "width_of", "widths_of"]

_UNKNOWN_WIDENS = 5.0  # an op priced by its bytes alone can be several times off
_REPEATS = 1.03  # a number of the user's own, taken again: another node with the same GPU and code moves a step by up to 2.9 %
_LAUNCH = BOUNDS.index("launch")


@dataclass(frozen=True, kw_only=True, eq=False)
class Widths:
    """Measured over predicted: the ends that hold 8 steps of 10, and how many rows say so (0: assumed), (batches, gpus) each."""

    low: Array
    high: Array
    rows: Array


def widths_of(run: Run, gpus: Sequence[Gpu], last: StepTimes, bound: Array, is_own: Array, covered: float) -> Widths:
    """The ranges of steps that end with `last` and are held up by `bound`, of whose traffic a share is `covered` by ops that we
    know; the user measured those that are `is_own`."""
    found = Widths(low=np.empty(bound.shape), high=np.empty(bound.shape), rows=np.empty(bound.shape, dtype=np.int64))
    known: dict[tuple[int, bool], Range] = {}
    for point, place in np.ndindex(bound.shape):
        held = bool(bound[point, place] == _LAUNCH)
        if (place, held) not in known:
            known[place, held] = width_of(run.measured, gpus[place], "launch" if held else "", covered)
        width = _with_loader(run, last, point, place, known[place, held])
        if is_own[point, place]:
            width = Range(low=1 / _REPEATS, high=_REPEATS, rows=1)  # what the user measured, measured again
        found.low[point, place], found.high[point, place], found.rows[point, place] = width.low, width.high, width.rows
    return found


def width_of(measured: Sequence[Measured], gpu: Gpu, bound: str, covered: float) -> Range:
    """The range on one GPU: wider where little of the model is understood. From a step measured on another GPU it is that of the
    ratio between the two."""
    on = [one.gpu for one in measured]
    if not on or gpu.is_cpu or (bound == "launch" and not any(one.is_cpu for one in on)):
        width = step_range(gpu, bound)
    else:
        width = reduce(Range.around, (pair_range(one, gpu) for one in on))
    return width.widened(1.0 + _UNKNOWN_WIDENS * max(0.0, 0.98 - covered))


def _with_loader(run: Run, last: StepTimes, point: int, place: int, width: Range) -> Range:
    """The range where a loader has a rate: each end waits for the loader too, at its best and at its worst."""
    if run.setting.loader_samples_per_s is None:
        return width
    slowest, fastest = (run.decoder.low, run.decoder.high) if run.decoder else (1 / _REPEATS, _REPEATS)
    lanes = {name: float(lane[point, place]) for name, lane in last.lanes.items()}
    loading, seconds = lanes.pop("input"), float(last.seconds[point, place])
    rest = max(lanes.values())
    low = max(rest * width.low, loading / fastest) / seconds
    high = max(rest * width.high, loading / slowest) / seconds
    return Range(low=min(1.0, low), high=max(1.0, high), rows=width.rows)


def plan_width(measured: Sequence[Measured], gpus: Sequence[Gpu], bound: str, covered: float, *, divided: bool) -> Range:
    """The range of a plan on these GPUs: that of `predict` where only samples are divided; where more is (`divided`), one that
    also holds what published steps of split language models took."""
    alone = reduce(Range.around, (width_of(measured, gpu, bound, covered) for gpu in gpus))
    return alone.around(unknown_range()) if divided else alone


def range_notes(alone: Range | None, divided: Range | None) -> list[Assumption]:
    """What the ranges of plans rest on, for those kinds of plans that are shown."""
    published = f"{unknown_range().rows:,} published steps of split language models"
    kinds = (
        ("range where samples alone are divided", alone, "holds 8 measured steps in 10, as in `gpuwise predict`"),
        ("range of other plans", divided, f"holds that, and 8 in 10 of {published}"),
    )
    return [
        assumed(name, f"{one.low:.2f} to {one.high:.2f} times the step", effect, basis="measured")
        for name, one, effect in kinds
        if one is not None and one.rows
    ]
