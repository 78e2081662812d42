"""A GPU is almost idle.

## What it detects
Across many GPUs (`gpuwise watch --prometheus`), this check looks for GPUs that were busy for less than 5% of the
window. If a process occupies memory on the GPU, the GPU is reserved but idle. Otherwise, it is unused.

## Why it costs time
An idle GPU costs money but does no work. While a process occupies its memory, other jobs may not be able to use it.

## What to do
If memory is occupied, find the process with `nvidia-smi` on the host. It may be a notebook that was left open, or a job
that hangs or waits for data. If no memory is occupied, give the GPU to a waiting job or release it.

## Confidence
Confidence is high for the measurement. The metrics do not show whether there was work to do, so the range of the gain
starts at 1.0 (no gain).
"""

from __future__ import annotations

from gpuwise.diagnose.fleet import Member
from gpuwise.diagnose.types import Finding, Gain

__all__ = ["CODE", "check_member"]

CODE = "idle_gpu"
_BUSY = 0.05
_FEW = 3
_HELD_BYTES = 1e9  # a context alone takes less; shared_gpu has the same threshold
_MOST = 20.0


def check_member(member: Member) -> Finding | None:
    """Find a GPU that is busy for less than a twentieth of the time."""
    gpu = member.vitals
    if gpu.busy_fraction is None or gpu.sample_count < _FEW or gpu.busy_fraction >= _BUSY:
        return None
    held = (member.memory_used_bytes or 0.0) >= _HELD_BYTES
    power = "" if gpu.power_watts is None else f", {gpu.power_watts:.0f} W"
    memory = "memory use unknown" if member.memory_used_bytes is None else f"{member.memory_used_bytes / 1e9:.1f} GB occupied"
    return Finding(
        code=CODE,
        title=f"{gpu.name} is almost idle" + (", but its memory is occupied" if held else ""),
        seconds_per_step=0.0,
        share_fraction=1.0 - gpu.busy_fraction,
        gain=Gain(low=1.0, high=min(1.0 / max(gpu.busy_fraction, 1e-9), _MOST)),
        confidence="high",
        evidence=(f"busy {gpu.busy_fraction:.1%}{power}, {memory}",),
        remedy="if memory is occupied, find the process that uses it; otherwise, give the GPU to a waiting job or release it",
        verify="the GPU should be busy, or should no longer be listed",
    )
