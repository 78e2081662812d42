"""Other processes use the same GPU.

## What it detects
This check looks for processes outside the watched run that use at least 5% of the GPU's time or at least 1 GB of its
memory.

## Why it costs time
Kernels from two processes take turns. Memory used by other processes is not available for a larger batch.

## What to do
Stop the other processes, wait for them to finish, or choose another GPU (`CUDA_VISIBLE_DEVICES`).

## Confidence
Confidence is high for the processes that the driver lists. In a container, the driver may list the host's process IDs.
In that case, the check reports nothing.
"""

from __future__ import annotations

from gpuwise.diagnose.types import Finding, Gain
from gpuwise.diagnose.vitals import Vitals

__all__ = ["CODE", "check_live"]

CODE = "shared_gpu"
_BUSY = 0.05
_HELD_BYTES = 1e9


def check_live(vitals: Vitals) -> Finding | None:
    """Find the GPU that other processes use most."""
    shared = [gpu for gpu in vitals.gpus if gpu.other_busy_fraction >= _BUSY or gpu.other_memory_bytes >= _HELD_BYTES]
    if not shared:
        return None
    gpu = max(shared, key=lambda one: (one.other_busy_fraction, one.other_memory_bytes))
    lost = min(gpu.other_busy_fraction, 0.9)
    count = gpu.other_processes or 1
    return Finding(
        code=CODE,
        title=f"the {gpu.name} is shared with {count} other process{'es' if count > 1 else ''}",
        seconds_per_step=lost * vitals.step_s,
        share_fraction=lost,
        gain=Gain(low=1.0, high=1.0 / (1.0 - lost)),
        confidence="high" if lost >= _BUSY else "medium",
        evidence=(
            f"the other processes keep it busy {gpu.other_busy_fraction:.0%} of the time and occupy "
            f"{gpu.other_memory_bytes / 1e9:.1f} GB",
        ),
        remedy="stop the other processes, or choose another GPU with CUDA_VISIBLE_DEVICES",
        verify="`nvidia-smi` should list only your process",
    )
