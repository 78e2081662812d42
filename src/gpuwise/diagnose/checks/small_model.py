"""Kernel launches determine the step time, so a faster GPU would not help.

## What it detects
This check looks for a GPU that computes for at most 40% of the step and waits for launches for at least 30% of it, with
a median kernel time below 10 µs.

## Why it costs time
The step takes as long as the host needs to launch its kernels. Kernels this short already take the minimum time of a
few microseconds, so a GPU that is twice as fast runs the step in the same time.

## What to do
Use a larger batch, `torch.compile(mode="reduce-overhead")` or CUDA graphs, or run several models at once. You do not
need a faster GPU.

## Confidence
Confidence is high if launches and kernels are matched in the trace.
"""

from __future__ import annotations

from gpuwise.diagnose.checks import launch_bound
from gpuwise.diagnose.replay import Change
from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View

__all__ = ["CODE", "check"]

CODE = "small_model"
_BUSY = 0.4
_SHORT_S = 10e-6
_WAITING = 0.3


def check(view: View) -> Finding | None:
    """Find short kernels on an idle device with a busy host."""
    median = view.median_kernel_s()
    waiting = view.parts.share("host_launch")
    compute = view.facts.busy_fraction - view.facts.communication_exposed_fraction
    if view.scene.on_cpu or compute > _BUSY or median > _SHORT_S or waiting < _WAITING:
        return None
    lost_s = launch_bound.waiting_s(view)
    more = ", including those of the optimizer" if lost_s < view.parts.parts_s["host_launch"] else ""
    return Finding(
        code=CODE,
        title="kernel launches determine the step time, so a faster GPU would not help",
        seconds_per_step=lost_s,
        share_fraction=lost_s / view.step_s,
        gain=view.gain(lost_s, likely=Change(host=0.85), best=Change(host=0.1)),
        confidence="high",
        evidence=(
            f"the GPU computes {compute:.0%} of the time, with a median kernel time of {median * 1e6:.1f} µs",
            f"the GPU waits for launches {waiting:.0%} of the time{more}",
        ),
        remedy="use a larger batch, torch.compile or CUDA graphs instead of a faster GPU",
        verify="with twice the batch, the step should take hardly any longer",
    )
