"""Determines how far off a prediction may be, from the user's own measurements, the GPU, what was measured, how much of the model
is understood, and the loader.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from statistics import median

import numpy as np

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import the
from gpuwise.core.units import format_si
from gpuwise.evidence.ranges import TRUST, Range, pair_range, step_range
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.run import Measured, Run
from gpuwise.step.types import BOUNDS, Array, StepTimes

__all__ = ["Correction", "Widths", "correction_of", "plan_width", "range_notes", "width_of", "widths_of"]

# ---------------------------------------------------------------- the user's own steps
# The user's own measured steps: how far they are from the predictions, and whether they are plausible.

_IMPOSSIBLE, _DOUBTFUL = 20.0, 3.0  # times the prediction: a wrong unit gives a thousand, another batch or precision a few


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """The user's measurements, as (GPU, batch, measured seconds, predicted seconds), and the resulting factor for predictions on
    other GPUs. `raw` is measured over predicted before shrinkage. It is `exact` for the very step that was measured, but not
    for the same model run in another way.
    """

    steps: tuple[tuple[Gpu, int, float, float], ...] = ()
    raw: float = 1.0
    factor: float = 1.0
    exact: bool = True

    def scale(self, gpus: Sequence[Gpu]) -> Array:
        """Return the factor for predictions on each of these GPUs. On a measured GPU, the full ratio applies."""
        own: dict[str, list[float]] = {}
        for gpu, _, measured_s, predicted_s in self.steps:
            own.setdefault(gpu.name, []).append(measured_s / predicted_s)
        return np.array([median(own.get(gpu.name, [self.factor])) for gpu in gpus])

    def is_own(self, batches: Sequence[int], gpus: Sequence[Gpu]) -> Array:
        """Return which of these steps the user measured, (batches, gpus)."""
        own = {(gpu.name, batch) for gpu, batch, _, _ in self.steps if self.exact}
        return np.array([[(gpu.name, batch) in own for gpu in gpus] for batch in batches])

    def notes(self) -> list[Assumption]:
        """Return the notes about the correction."""
        if not self.steps:
            return []
        said = assumed(
            "your measurement",
            f"{self.raw:.2f} times the predicted time",
            f"other predictions are corrected by {TRUST:.0%} of this difference, a factor of {self.factor:.2f}",
            basis="measured",
        )
        far = [(gpu, measured_s, measured_s / predicted_s) for gpu, _, measured_s, predicted_s in self.steps]
        return [said, *(_doubt(gpu, measured_s, ratio) for gpu, measured_s, ratio in far if _far(ratio) > _DOUBTFUL)]


def correction_of(measured: Sequence[Measured], usual_batch: int, predicted_s: Callable[[Gpu, int], float]) -> Correction:
    """Return the correction from these steps, given the predictions for each GPU and batch. A wrong unit is refused."""
    if not measured:
        return Correction()
    steps = []
    for one in measured:
        batch = one.batch or usual_batch
        steps.append((one.gpu, batch, one.step_s, predicted_s(one.gpu, batch)))
    ratios = [_checked(gpu, measured_s, expected_s) for gpu, _, measured_s, expected_s in steps]
    raw = math.exp(median(math.log(ratio) for ratio in ratios))
    return Correction(steps=tuple(steps), raw=raw, factor=raw**TRUST)


def _far(ratio: float) -> float:
    return max(ratio, 1 / ratio)


def _checked(gpu: Gpu, measured_s: float, predicted_s: float) -> float:
    """Return measured over predicted time, or refuse the measurement if no software could explain it."""
    ratio = measured_s / predicted_s
    if _far(ratio) <= _IMPOSSIBLE:
        return ratio
    raise BadValue(
        f"a measured step of {format_si(measured_s, 's')} on {the(gpu.name)} is implausible: "
        f"it is {_words(ratio)} the predicted {format_si(predicted_s, 's')}",
        hint="check the unit (s, ms, µs), and that the batch, model and precision match the measurement; "
        f"deviations of up to a factor of {_IMPOSSIBLE:g} are accepted",
    )


def _doubt(gpu: Gpu, measured_s: float, ratio: float) -> Assumption:
    effect = "this differs greatly from the prediction; check the unit, batch and precision of the measurement"
    value = f"{format_si(measured_s, 's')}, {_words(ratio)} the predicted time"
    return assumed(f"measured on {gpu.name}", value, effect, basis="measured", code="doubtful_measurement")


def _words(ratio: float) -> str:
    times = _far(ratio)
    shown = f"{times:,.0f}" if times >= 10 else f"{times:.2g}"
    return f"{shown} times" if ratio > 1 else f"1/{shown} of"


# ---------------------------------------------------------------- widths

_UNKNOWN_WIDENS = 5.0  # the time of an op estimated from its bytes alone can be off by several times
_REPEATS = 1.03  # repeating the user's own measurement: another node with the same GPU and code changes a step by up to 2.9%
_LAUNCH = BOUNDS.index("launch")


@dataclass(frozen=True, kw_only=True, eq=False)
class Widths:
    """The ratio of measured to predicted time: the ends of the range that contains 8 of 10 steps, and the number of rows behind
    them (0: assumed), each of shape (batches, gpus).
    """

    low: Array
    high: Array
    rows: Array


def widths_of(run: Run, gpus: Sequence[Gpu], last: StepTimes, bound: Array, is_own: Array, covered: float) -> Widths:
    """Return the ranges of steps that end with `last` and are limited by `bound`. `covered` is the share of their traffic from
    ops that gpuwise recognises; the user measured those in `is_own`.
    """
    found = Widths(low=np.empty(bound.shape), high=np.empty(bound.shape), rows=np.empty(bound.shape, dtype=np.int64))
    known: dict[tuple[int, bool], Range] = {}
    stack = run.setting.stack
    for point, place in np.ndindex(bound.shape):
        held = bool(bound[point, place] == _LAUNCH)
        if (place, held) not in known and stack.widths and not run.measured:
            known[place, held] = Range(low=stack.widths[0], high=stack.widths[1], rows=stack.rows)
        if (place, held) not in known:
            known[place, held] = width_of(run.measured, gpus[place], "launch" if held else "", covered)
        width = _with_loader(run, last, point, place, known[place, held])
        if is_own[point, place]:
            width = Range(low=1 / _REPEATS, high=_REPEATS, rows=1)  # repeats of the user's own measurement
        found.low[point, place], found.high[point, place], found.rows[point, place] = width.low, width.high, width.rows
    return found


def width_of(measured: Sequence[Measured], gpu: Gpu, bound: str, covered: float) -> Range:
    """Return the range on one GPU, wider if little of the model is understood. With a step measured on another GPU, it is the
    range of the ratio between the two.
    """
    on = [one.gpu for one in measured]
    if not on or gpu.is_cpu or (bound == "launch" and not any(one.is_cpu for one in on)):
        width = step_range(gpu, bound)
    else:
        width = reduce(Range.around, (pair_range(one, gpu) for one in on))
    return width.widened(1.0 + _UNKNOWN_WIDENS * max(0.0, 0.98 - covered))


def _with_loader(run: Run, last: StepTimes, point: int, place: int, width: Range) -> Range:
    """Return the range with a loader of known rate: each end also waits for the loader, at its best and at its worst."""
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
    """Return the range for a plan on these GPUs: that of `predict` if only samples are divided. If more is `divided`, the range
    also covers published step times of language models split over GPUs.
    """
    alone = reduce(Range.around, (width_of(measured, gpu, bound, covered) for gpu in gpus))
    from gpuwise.evidence.parallel import unknown_range  # plans of many GPUs, which few questions need

    return alone.around(unknown_range()) if divided else alone


def range_notes(alone: Range | None, divided: Range | None) -> list[Assumption]:
    """Return notes on the basis of the ranges, for the kinds of plans that are shown."""
    from gpuwise.evidence.parallel import unknown_range  # plans of many GPUs, which few questions need

    published = f"{unknown_range().rows:,} published step times for language models split across several GPUs"
    kinds = (
        ("range for data parallelism alone", alone, "it contains 80% of measured step times, as in `gpuwise predict`"),
        ("range for other plans", divided, f"it also contains 80% of {published}"),
    )
    return [
        assumed(name, f"{one.low:.2f} to {one.high:.2f} times the predicted step", effect, basis="measured")
        for name, one, effect in kinds
        if one is not None and one.rows
    ]
