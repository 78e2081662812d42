"""The optimizer updates one parameter at a time.

## What it detects
This check looks for many small kernels launched inside `Optimizer.step` that are not multi-tensor kernels. It reports
them if the optimizer takes at least 3% of the step.

## Why it costs time
A model has hundreds of parameter tensors, and Adam needs a dozen element-wise ops for each. That adds up to thousands
of launches of a few microseconds each.

## What to do
Use `optim.AdamW(..., fused=True)`, or `foreach=True`, which has been the default since PyTorch 2.0 unless it is turned
off.

## Confidence
Confidence is high, because the check counts calls inside the optimizer's own profiler range. The upper end of the gain
assumes that 95% of the time is saved. The lower end assumes 30% of that saving.
"""

from __future__ import annotations

from gpuwise.diagnose.intervals import Spans, union
from gpuwise.diagnose.steps import OPTIMIZER
from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View
from gpuwise.trace.types import printable

__all__ = ["CODE", "check", "held"]

CODE = "unfused_optimizer"
_THRESHOLD = 0.03
_MANY = 40
_BEST = 0.95


def check(view: View) -> Finding | None:
    """Find launches inside the optimizer's step and the time it takes on host or device."""
    scene = view.scene
    inside = scene.in_optimizer & scene.kernels
    single = inside & ~scene.named("multi_tensor", "fused", "_foreach", "lpmultitensor")
    launches = view.count(single)
    if launches < _MANY or launches < 0.5 * view.count(inside):
        return None
    begin, end = scene.steps.steady_window
    idle = held(view).within(begin, end).without(scene.busy)
    steps = max(scene.steps.steady_count, 1)
    lost_s = view.exposed_s(single) + idle.total_ns * 1e-9 / steps
    if lost_s < _THRESHOLD * view.step_s:
        return None
    marks = scene.trace.named(*OPTIMIZER)
    names = {printable(name.partition("#")[2])[:60] for name, fits in zip(scene.trace.names, marks, strict=True) if fits}
    return Finding(
        code=CODE,
        title="the optimizer updates one parameter at a time",
        seconds_per_step=lost_s,
        share_fraction=lost_s / view.step_s,
        gain=view.gain(lost_s * _BEST, least=0.3),
        confidence="high",
        evidence=(
            f"{launches:,.0f} separate kernels per step inside {', '.join(sorted(filter(None, names))) or 'the optimizer'}",
            f"these kernels and the waits for their launch take {lost_s * 1e3:,.2f} ms per step",
        ),
        remedy="pass foreach=True or fused=True to the optimizer",
        verify="the optimizer should launch at most a few dozen kernels, with multi_tensor_apply or fused in their names",
    )


def held(view: View) -> Spans:
    """When the host is inside the optimizer's step."""
    marks = view.scene.trace.marked(*OPTIMIZER)
    return union(marks.start_ns, marks.end_ns)
