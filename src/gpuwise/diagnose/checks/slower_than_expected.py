"""The step takes longer than predicted for this GPU.

## What it detects
This check compares the mean step time with the prediction of `gpuwise predict` for the model named with `--model`,
using the GPU, batch size and precision found in the trace.

## Why it costs time
The other checks do not cover the cause. It may be a lower clock, another process, an old driver, or a model other than
the one you named.

## What to do
First make sure that the batch size, precision, framework, input pipeline and power mode match those of the prediction.
Then use `gpuwise watch` to check clocks, temperature and other processes.

## Confidence
The finding is as certain as the prediction. The check reports a step only if it takes longer than the upper end of the
predicted range.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.diagnose.types import Abstained, Finding, Gain
from gpuwise.diagnose.view import View

__all__ = ["CODE", "Expectation", "check_expected", "judge_step"]

CODE = "slower_than_expected"
_RANGE = "the gain is relative to the shortest predicted time, and the share is relative to the middle of the range"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The predicted time of a healthy step."""

    model: str
    gpu: str
    step_s: float
    low_s: float
    high_s: float
    setting: str


def check_expected(view: View, expected: Expectation | Abstained | None) -> Finding | Abstained | None:
    """Compare the step of a trace with the range of the prediction."""
    return judge_step(view.step_s, expected)


def judge_step(step: float, expected: Expectation | Abstained | None) -> Finding | Abstained | None:
    """Compare a mean step of this many seconds, however it was measured, with the prediction. If the model is named but cannot
    be predicted, the reason is returned."""
    if isinstance(expected, Abstained):
        return expected
    if expected is None:
        return Abstained(
            code=CODE,
            reason="no model was named, so the expected step time is unknown",
            record_next="name the model, for example with --model resnet50",
        )
    if step <= expected.high_s:
        return None
    lost = step - expected.step_s
    return Finding(
        code=CODE,
        title=f"the step takes longer than predicted for {expected.model} on the {expected.gpu}",
        seconds_per_step=lost,
        share_fraction=lost / step,
        gain=Gain(low=step / expected.high_s, high=step / expected.low_s, beyond=_RANGE),
        confidence="medium",
        evidence=(
            f"the mean step takes {step * 1e3:,.1f} ms, but {expected.step_s * 1e3:,.1f} ms was predicted",
            f"the prediction ranges from {expected.low_s * 1e3:,.1f} to {expected.high_s * 1e3:,.1f} ms",
            f"the prediction assumes {expected.setting}",
        ),
        remedy="fix the other findings first, then check clocks, temperature and other processes with `gpuwise watch`",
        verify="the step time should fall within the predicted range",
    )
