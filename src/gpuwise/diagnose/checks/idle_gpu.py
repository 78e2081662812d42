"""A GPU does next to nothing.

## What it sees
Many GPUs at once (`gpuwise watch --prometheus`): those that were busy for less than 5 % of the window. Whether somebody holds
their memory tells a GPU that nobody wants from one that waits.

## Why it costs time
It is paid for and does no work. One that is held cannot be given to anybody else.

## What to do
Memory held: find the process (`nvidia-smi` on the host), a notebook left open, a job that hangs or waits for its data. Nothing
held: give it to a waiting job, or give it back.

## How sure
High for what was measured; nobody knows whether there was work to do, so the lower end of the gain is none.
"""

from __future__ import annotations

from gpuwise.diagnose.fleet import Member
from gpuwise.diagnose.types import Finding, Gain

__all__ = ["CODE", "check_member"]

CODE = "idle_gpu"
_BUSY = 0.05
_FEW = 3
_HELD_BYTES = 1e9  # a context alone takes less; the threshold of shared_gpu
_MOST = 20.0


def check_member(member: Member) -> Finding | None:
    """Busy for less than a twentieth of the time."""
    gpu = member.vitals
    if gpu.busy_fraction is None or gpu.sample_count < _FEW or gpu.busy_fraction >= _BUSY:
        return None
    held = (member.memory_used_bytes or 0.0) >= _HELD_BYTES
    power = "" if gpu.power_watts is None else f", {gpu.power_watts:.0f} W"
    memory = "memory unknown" if member.memory_used_bytes is None else f"{member.memory_used_bytes / 1e9:.1f} GB occupied"
    return Finding(
        code=CODE,
        title=f"{gpu.name} is almost idle" + (" but its memory is occupied" if held else ""),
        seconds_per_step=0.0,
        share_fraction=1.0 - gpu.busy_fraction,
        gain=Gain(low=1.0, high=min(1.0 / max(gpu.busy_fraction, 1e-9), _MOST)),
        confidence="high",
        evidence=(f"busy {gpu.busy_fraction:.1%}{power}, {memory}",),
        remedy="if memory is occupied, find the process that holds it; otherwise, give the GPU to a waiting job or release it",
        verify="the GPU should be busy or no longer listed",
    )
