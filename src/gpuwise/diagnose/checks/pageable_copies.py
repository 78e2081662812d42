"""Copies use pageable memory.

## What it detects
This check looks for host-to-device copies marked `Pageable` that take at least 5% of the step, and compares their
bandwidth with that of pinned copies.

## Why it costs time
The driver first copies pageable memory into its own pinned buffer. This copy runs at about half the speed of the link,
and the host waits for it.

## What to do
Use `DataLoader(pin_memory=True)` and `.to(device, non_blocking=True)`.

## Confidence
Confidence is high if the trace says that the memory is pageable. ROCm traces do not record this. The lower end of the
gain assumes that pinned copies reach 12 GB/s (PCIe 3.0 x16), and the upper end assumes that they are hidden behind
compute.
"""

from __future__ import annotations

from dataclasses import replace

from gpuwise.diagnose.types import Abstained, Finding
from gpuwise.diagnose.view import View
from gpuwise.trace.types import Kind

__all__ = ["CODE", "check"]

CODE = "pageable_copies"
_THRESHOLD = 0.05
_PINNED_BYTES_PER_S = 12e9
_ENOUGH = 0.6


def check(view: View) -> Finding | Abstained | None:
    """Find copies from pageable memory that are slower than pinned copies would be."""
    scene = view.scene
    to_device = (scene.work.kind == Kind.MEMCPY) & scene.named("htod", "host -> device", "h2d") & scene.steady
    if to_device.any() and not (to_device & scene.named("pageable", "pinned")).any():
        return Abstained(
            code=CODE,
            reason="the trace does not distinguish pageable from pinned copies",
            record_next="check the pin_memory setting of the data loader",
        )
    copies = to_device & scene.named("pageable ->")
    lost_s = view.held_s(copies)
    if lost_s < _THRESHOLD * view.step_s:
        return None
    size = float(scene.work.size_bytes[copies].clip(min=0).sum()) / max(scene.steps.steady_count, 1)
    rate = size / lost_s
    if rate >= _ENOUGH * _PINNED_BYTES_PER_S:
        return None
    shorter = replace(view.shrink(copies, rate / _PINNED_BYTES_PER_S), blocking_copies=False)
    return Finding(
        code=CODE,
        title="input is copied from pageable memory",
        seconds_per_step=lost_s,
        share_fraction=lost_s / view.step_s,
        gain=view.gain(lost_s, likely=shorter),
        confidence="high",
        evidence=(f"{view.count(copies):,.1f} pageable copies {view.per}, {size / 1e6:,.1f} MB at {rate / 1e9:.1f} GB/s",),
        remedy="use DataLoader(pin_memory=True) and .to(device, non_blocking=True)",
        verify="the copies should be named Pinned -> Device and reach 12 GB/s or more",
    )
