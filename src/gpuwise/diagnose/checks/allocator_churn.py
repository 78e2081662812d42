"""Steps allocate memory from the driver.

## What it detects
This check looks for calls to `cudaMalloc`, `cudaFree`, `hipMalloc` or `hipFree` in steady steps. It reports them if
they take at least half a percent of the time.

## Why it costs time
These calls wait for the device and take milliseconds. PyTorch keeps freed memory in a pool, so steady steps should not
need them. If they do, the pool is turned off, nearly full, or fragmented by changing sizes.

## What to do
Keep the pool on. Do not set `PYTORCH_NO_CUDA_MEMORY_CACHING` and do not call `empty_cache()` in the loop. Pad sequences
to a few lengths, set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`, or use a smaller batch if memory is full.

## Confidence
Confidence is high, because the trace records the calls and their time. The lower end of the gain assumes that half of
the calls remain.
"""

from __future__ import annotations

from gpuwise.diagnose.intervals import union
from gpuwise.diagnose.replay import Change
from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View

__all__ = ["CODE", "check"]

CODE = "allocator_churn"
_LEAST = 0.005


def check(view: View) -> Finding | None:
    """Find allocating calls in steady steps."""
    scene = view.scene
    begin, end = scene.steps.steady_window
    churn = scene.churn
    calls = churn.where((churn.start_ns >= begin) & (churn.start_ns < end))
    held = union(churn.start_ns, churn.end_ns).within(begin, end).total_ns / max(end - begin, 1)
    lost_s = held * view.step_s
    if not len(calls) or lost_s < _LEAST * view.step_s:
        return None
    steps = max(scene.steps.steady_count, 1)
    idle_s = view.parts.parts_s["allocation"]
    few, each = view.seldom(union(calls.start_ns, calls.end_ns))
    return Finding(
        code=CODE,
        title=f"steps allocate memory from the driver{few}",
        seconds_per_step=lost_s,
        share_fraction=lost_s / view.step_s,
        gain=view.gain(idle_s, likely=Change(allocating=0.5), best=Change(allocating=0.0)),
        confidence="high",
        evidence=(
            f"calls to the driver take {held:.1%} of the time ({len(calls) / steps:,.0f} {view.per})",
            f"they leave the GPU idle {idle_s / view.step_s:.1%} of the time",
            *each,
        ),
        remedy="do not call empty_cache() in the loop, use few distinct tensor sizes, and set expandable_segments",
        verify="there should be no cudaMalloc or cudaFree calls after the first few steps",
    )
