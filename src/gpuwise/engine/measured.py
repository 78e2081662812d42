"""What steps of the user's own say: how far they are from the predictions for them, and whether they can be meant so."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.units import format_si
from gpuwise.engine.run import Measured
from gpuwise.evidence.ranges import TRUST
from gpuwise.hardware.types import Gpu
from gpuwise.step.types import Array

__all__ = ["Correction", "correction_of"]

_IMPOSSIBLE, _DOUBTFUL = 20.0, 3.0  # times the prediction: a wrong unit is a thousand, another batch or precision several


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What the user measured, as (GPU, batch, measured seconds, predicted seconds) each, and what predictions for other GPUs are
    multiplied by because of it; `raw` is measured over predicted before it is shrunk. It is `exact` for the very step that was
    measured, not for the same model run in another way."""

    steps: tuple[tuple[Gpu, int, float, float], ...] = ()
    raw: float = 1.0
    factor: float = 1.0
    exact: bool = True

    def scale(self, gpus: Sequence[Gpu]) -> Array:
        """What predictions for each of these GPUs are multiplied by: on a GPU that was measured all of the ratio holds."""
        own: dict[str, list[float]] = {}
        for gpu, _, measured_s, predicted_s in self.steps:
            own.setdefault(gpu.name, []).append(measured_s / predicted_s)
        return np.array([median(own.get(gpu.name, [self.factor])) for gpu in gpus])

    def is_own(self, batches: Sequence[int], gpus: Sequence[Gpu]) -> Array:
        """Which of these steps the user measured, (batches, gpus)."""
        own = {(gpu.name, batch) for gpu, batch, _, _ in self.steps if self.exact}
        return np.array([[(gpu.name, batch) in own for gpu in gpus] for batch in batches])

    def notes(self) -> list[Assumption]:
        """What is said of it."""
        if not self.steps:
            return []
        said = assumed(
            "measured",
            f"{self.raw:.2f} times the prediction",
            f"of which {TRUST:.0%} carries over: other predictions are multiplied by {self.factor:.2f}",
            basis="measured",
        )
        far = [(gpu, measured_s, measured_s / predicted_s) for gpu, _, measured_s, predicted_s in self.steps]
        return [said, *(_doubt(gpu, measured_s, ratio) for gpu, measured_s, ratio in far if _far(ratio) > _DOUBTFUL)]


def correction_of(measured: Sequence[Measured], usual_batch: int, predicted_s: Callable[[Gpu, int], float]) -> Correction:
    """The correction by these steps, from what is predicted for each GPU and batch. A wrong unit is refused."""
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
    """Measured over predicted; refused where no software explains it."""
    ratio = measured_s / predicted_s
    if _far(ratio) <= _IMPOSSIBLE:
        return ratio
    raise BadValue(
        f"a measured step of {format_si(measured_s, 's')} on {gpu.name} is implausible: {_words(ratio)} than predicted",
        looked_in=f"the predicted step, {format_si(predicted_s, 's')}; up to {_IMPOSSIBLE:g} times is accepted",
        hint="check its unit (s, ms, µs), and that batch, model and precision are those that were measured",
    )


def _doubt(gpu: Gpu, measured_s: float, ratio: float) -> Assumption:
    effect = "far from the prediction: check the unit, the batch and the precision that were measured"
    value = f"{format_si(measured_s, 's')}, {_words(ratio)} than predicted"
    return assumed(f"measured on {gpu.name}", value, effect, basis="measured", code="doubtful_measurement")


def _words(ratio: float) -> str:
    times = _far(ratio)
    shown = f"{times:,.0f}" if times >= 10 else f"{times:.2g}"
    return f"{shown} times {'slower' if ratio > 1 else 'faster'}"
