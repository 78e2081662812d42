"""Memory in two segments: what lies in the slow one is read through a narrow path (the GTX 970's last half gigabyte).

The two paths are not served at once, so the fast segment has the bandwidth that is left. A driver fills it first.
"""

from __future__ import annotations

from dataclasses import replace

from gpuwise.hardware.types import Gpu

__all__ = ["fast_part", "slow_s", "spilled_bytes"]


def fast_part(gpu: Gpu) -> Gpu:
    """The GPU with the bandwidth of its fast segment alone."""
    if gpu.slow_memory_bytes_per_s is None:
        return gpu
    return replace(gpu, memory_bytes_per_s=gpu.memory_bytes_per_s - gpu.slow_memory_bytes_per_s)


def spilled_bytes(gpu: Gpu, resident_bytes: float) -> float:
    """What of these bytes lies in the slow segment."""
    return min(max(0.0, resident_bytes - gpu.usable_memory_bytes), gpu.slow_memory_bytes)


def slow_s(gpu: Gpu, resident_bytes: float, moved_bytes: float) -> float:
    """Seconds a step takes longer, if its traffic is spread evenly over what is resident.

    moved × spilled / resident × (1 / slow bandwidth - 1 / fast bandwidth). The driver keeps what is used least in the slow
    segment, so this is the dear case.
    """
    spilled = spilled_bytes(gpu, resident_bytes)
    if not spilled or gpu.slow_memory_bytes_per_s is None:
        return 0.0
    longer = 1.0 / gpu.slow_memory_bytes_per_s - 1.0 / fast_part(gpu).memory_bytes_per_s
    return moved_bytes * spilled / resident_bytes * longer
