"""GPU memory is full and spills to host memory.

## What it detects
This check looks for a GPU with at least 95% of its memory in use. In addition, the step must take at least twice as
long as expected, or at least a fifth of the PCIe bandwidth must be in use all the time. Full memory alone is not enough
evidence, because allocators keep memory that they have reserved.

## Why it costs time
The GPU accesses host memory over PCIe, which is ten to fifty times slower than GPU memory. On Windows and WSL, the
driver spills silently. On Linux, spilling happens with managed memory.

## What to do
Use a smaller batch, checkpointing or a lower precision. `gpuwise fit` ranks these remedies. On Windows, the setting
"CUDA - Sysmem Fallback Policy: Prefer No Sysmem Fallback" turns the silent slowdown into an error.

## Confidence
Confidence is medium, because the driver does not report spilling. It is high if the step also takes twice as long as
predicted.
"""

from __future__ import annotations

from gpuwise.diagnose.types import Finding, Gain
from gpuwise.diagnose.vitals import GpuVitals, Vitals
from gpuwise.hardware.machines import links

__all__ = ["CODE", "check_live"]

CODE = "vram_spill"
_FULL = 0.95
_TWICE = 2.0
_PASSING = 0.2
_MOST = 20.0


def check_live(vitals: Vitals) -> Finding | None:
    """Find a full GPU whose step is too long or whose link is too busy."""
    full = [gpu for gpu in vitals.gpus if (gpu.memory_used_fraction or 0.0) >= _FULL and gpu.load_count]
    if not full:
        return None
    gpu = max(full, key=lambda one: one.traffic_bytes_per_s or 0.0)
    ratio = vitals.step_s / vitals.expected_s if vitals.expected_s else 0.0
    passing = (gpu.traffic_bytes_per_s or 0.0) / _link_rate(gpu)
    if ratio < _TWICE and passing < _PASSING:
        return None
    high = min(max(ratio, 1.0 / max(1.0 - passing, 1.0 / _MOST)), _MOST)
    evidence = [f"{gpu.memory_used_fraction or 0.0:.0%} of its memory is in use, and {passing:.0%} of the PCIe link is busy"]
    if vitals.expected_s:
        evidence.append(f"the step takes {ratio:.1f} times as long as expected")
    return Finding(
        code=CODE,
        title=f"the memory of the {gpu.name} is full and spills to the host",
        seconds_per_step=vitals.step_s * (1.0 - 1.0 / high),
        share_fraction=1.0 - 1.0 / high,
        gain=Gain(low=1.0 + 0.3 * (high - 1.0), high=high),
        confidence="high" if ratio >= _TWICE else "medium",
        evidence=tuple(evidence),
        remedy="use a smaller batch, checkpointing or a lower precision; `gpuwise fit` ranks these options",
        verify="with half the batch, a step should take far less than half as long",
    )


def _link_rate(gpu: GpuVitals) -> float:
    link = links().get(f"PCIe {gpu.pcie_generation or 3}.0 x1") or links()["PCIe 3.0 x1"]
    return link.bytes_per_s_one_way * (gpu.pcie_lanes or 16)
