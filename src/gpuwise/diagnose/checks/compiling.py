"""Steps compile code.

## What it detects
This check looks for time during which the device is idle while `torch.compile`, Triton or the driver compiles or loads
code, if it takes at least 5% of the steady steps.

## Why it costs time
Compiling takes seconds. It should happen once, before the first steps. If it happens again and again, something changes
from step to step: the shape of the input, a Python value that the compiled code depends on, or the mode of the model.

## What to do
Run with `TORCH_LOGS=recompiles` to see what changed. Pad inputs to a few sizes, use `torch.compile(dynamic=True)` or
`mark_dynamic`, and do not pass Python numbers that change to the compiled function. Cache Triton kernels on disk.

## Confidence
Confidence is high for the time. The lower end of the gain assumes that half of it remains.
"""

from __future__ import annotations

from gpuwise.diagnose.host import compiling
from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View

__all__ = ["CODE", "check"]

CODE = "compiling"
_THRESHOLD = 0.05


def check(view: View) -> Finding | None:
    """Find idle time during compilation."""
    scene = view.scene
    begin, end = scene.steps.steady_window
    spans = compiling(scene).within(begin, end)
    lost_s = view.parts.parts_s["compiling"]
    if scene.on_cpu:  # a compiler runs ops too
        lost_s = spans.total_ns * 1e-9 / max(scene.steps.steady_count, 1)
    if lost_s < _THRESHOLD * view.step_s:
        return None
    few, each = view.seldom(spans)
    return Finding(
        code=CODE,
        title=f"steps compile code or load it onto the device{few}",
        seconds_per_step=lost_s,
        share_fraction=lost_s / view.step_s,
        gain=view.gain(lost_s, least=0.5),
        confidence="high" if scene.steps.steady_count > 1 else "medium",
        evidence=(
            f"{len(spans)} times in {scene.steps.steady_count} steps; the device is idle for {lost_s * 1e3:,.1f} ms {view.per}",
            *each,
        ),
        remedy="run with TORCH_LOGS=recompiles; pad inputs to a few sizes or use torch.compile(dynamic=True), and warm up first",
        verify="no compilation should appear after the first steps",
    )
