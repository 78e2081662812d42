"""The PCIe link is narrower or slower than the card supports.

## What it detects
This check looks for a PCIe generation or number of lanes below the card's maximum while the GPU is busy. An idle card
slows its link down to save power, so the check ignores samples without load.

## Why it costs time
Copying data to the GPU and exchanging gradients between cards take proportionally longer on a slower link.

## What to do
Try another slot (many boards have a slot with all lanes), reseat the card, remove any riser, and check whether the
board shares lanes with M.2 drives.

## Confidence
It is certain that the link is degraded. The cost is computed from the observed traffic, so little time is lost if there
is hardly any traffic. The range of the gain starts at 1.0 (no gain), because copies may be hidden behind compute.
"""

from __future__ import annotations

from gpuwise.diagnose.types import Finding, Gain
from gpuwise.diagnose.vitals import GpuVitals, Vitals
from gpuwise.hardware.machines import links

__all__ = ["CODE", "check_live"]

CODE = "pcie_degraded"
_FEW = 2


def check_live(vitals: Vitals) -> Finding | None:
    """Find the GPU whose link has lost the most speed."""
    worse = [
        (_rate(now) / _rate(most), gpu) for gpu in vitals.gpus if (now := _now(gpu)) and (most := _most(gpu)) and now != most
    ]
    if not worse:
        return None
    ratio, gpu = min(worse, key=lambda pair: pair[0])
    now, most = _now(gpu), _most(gpu)
    if now is None or most is None or ratio >= 1.0:
        return None
    passing = min((gpu.traffic_bytes_per_s or 0.0) / _rate(now), 1.0)
    lost = passing * (1.0 - ratio)
    traffic = (
        ""
        if gpu.traffic_bytes_per_s is None
        else f"{gpu.traffic_bytes_per_s / 1e9:.2f} GB/s of traffic, {passing:.0%} of the link capacity"
    )
    return Finding(
        code=CODE,
        title=f"the PCIe link of the {gpu.name} is slower than the card supports",
        seconds_per_step=lost * vitals.step_s,
        share_fraction=lost,
        gain=Gain(low=1.0, high=1.0 / max(1.0 - lost, 0.05)),
        confidence="high" if gpu.load_count >= 2 * _FEW else "medium",
        evidence=tuple(
            filter(None, (f"PCIe {now[0]}.0 x{now[1]} under load, but the card supports {most[0]}.0 x{most[1]}", traffic))
        ),
        remedy="reseat the card, try another slot, or remove the riser; check whether M.2 drives share its lanes",
        verify=f"the link should run at x{most[1]} under load",
    )


def _now(gpu: GpuVitals) -> tuple[int, int] | None:
    if gpu.load_count < _FEW or not gpu.pcie_generation or not gpu.pcie_lanes:
        return None
    return gpu.pcie_generation, gpu.pcie_lanes


def _most(gpu: GpuVitals) -> tuple[int, int] | None:
    if not gpu.pcie_generation_max or not gpu.pcie_lanes_max:
        return None
    return gpu.pcie_generation_max, gpu.pcie_lanes_max


def _rate(link: tuple[int, int]) -> float:
    """Bytes per second in one direction, scaled from one lane."""
    generation, lanes = link
    single = links().get(f"PCIe {generation}.0 x1") or links()["PCIe 3.0 x1"]
    return single.bytes_per_s_one_way * lanes
