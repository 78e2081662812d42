"""What steps of the user's own say: how far they are from the predictions for them, and whether they can be meant so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from gpuwise.api.question import Assumption
from gpuwise.errors import BadValue
from gpuwise.evidence.ranges import TRUST
from gpuwise.hardware.types import Gpu
from gpuwise.units import format_si

__all__ = ["carried_over"]

_IMPOSSIBLE, _DOUBTFUL = 20.0, 3.0  # times the prediction: a wrong unit is a thousand, another batch or precision several


def carried_over(steps: Sequence[tuple[Gpu, float, float]]) -> tuple[float, list[Assumption]]:
    """What predictions are multiplied by, from (GPU, measured seconds, predicted seconds) of each, and what is said of it."""
    ratios = [_checked(*step) for step in steps]
    raw = math.exp(median(math.log(ratio) for ratio in ratios))
    factor = raw**TRUST
    said = {
        "name": "measured",
        "value": f"{raw:.2f} times the prediction",
        "basis": "measured",
        "effect": f"of which {TRUST:.0%} carries over: other predictions are multiplied by {factor:.2f}",
    }
    return factor, [said, *(_doubt(*step) for step in steps if _far(step[1] / step[2]) > _DOUBTFUL)]


def _far(ratio: float) -> float:
    return max(ratio, 1 / ratio)


def _checked(gpu: Gpu, measured_s: float, predicted_s: float) -> float:
    """Measured over predicted; refused where no software explains it."""
    ratio = measured_s / predicted_s
    if _far(ratio) <= _IMPOSSIBLE:
        return ratio
    raise BadValue(
        f"a measured step of {format_si(measured_s, 's')} on {gpu.name} cannot be meant: {_words(ratio)} than predicted",
        looked_in=f"the predicted step, {format_si(predicted_s, 's')}; up to {_IMPOSSIBLE:g} times is taken",
        hint="check its unit (s, ms, µs), and that batch, model and precision are those that were measured",
    )


def _doubt(gpu: Gpu, measured_s: float, predicted_s: float) -> Assumption:
    effect = "far from the prediction: check the unit, the batch and the precision that were measured"
    value = f"{format_si(measured_s, 's')}, {_words(measured_s / predicted_s)} than predicted"
    return {"name": f"measured on {gpu.name}", "value": value, "basis": "measured", "effect": effect}


def _words(ratio: float) -> str:
    times = _far(ratio)
    shown = f"{times:,.0f}" if times >= 10 else f"{times:.2g}"
    return f"{shown} times {'slower' if ratio > 1 else 'faster'}"
