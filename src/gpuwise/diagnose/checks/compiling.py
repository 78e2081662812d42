"""Steps compile code.

## What it detects
This check looks for time during which the device is idle while `torch.compile`, Triton or the driver compiles or loads
code. It reports this time if it is at least 5% of the steady steps.

## Why it costs time
Compiling takes seconds. It should happen once, before the first steps. If it happens repeatedly, something changes from
step to step, such as the shape of the input, a Python value that the compiled code depends on, or the mode of the
model.

## What to do
Run with `TORCH_LOGS=recompiles` to see what changed. Pad inputs to a few sizes, use `torch.compile(dynamic=True)` or
`mark_dynamic`, and do not pass changing Python numbers to the compiled function. Cache Triton kernels on disk.

## Confidence
Confidence in the measured time is high. The lower end of the gain assumes that half of it remains.
"""

from __future__ import annotations

from gpuwise.core.text import counted
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
            f"this happens {counted(len(spans), 'time')} in {counted(scene.steps.steady_count, 'step')} and leaves "
            f"the device idle for {lost_s * 1e3:,.1f} ms {view.per}",
            *each,
        ),
        remedy="pad inputs to a few sizes or use torch.compile(dynamic=True), and warm up first; "
        "TORCH_LOGS=recompiles shows why code is compiled again",
        verify="no compilation should appear after the first steps",
    )
