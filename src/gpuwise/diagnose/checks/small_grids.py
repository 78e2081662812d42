"""Kernels are too small to fill the GPU.

## What it detects
This check looks for kernels with fewer blocks than the GPU has multiprocessors. It reports them if they take at least
half of the kernel time.

## Why it costs time
A block runs on one multiprocessor. With fewer blocks than multiprocessors, part of the chip is idle during every
kernel. On a larger chip, an even larger part is idle.

## What to do
Increase the batch until the time per sample stops falling. If the batch is fixed, run several models or several
streams on one GPU.

## Confidence
Confidence in the grid sizes is high, because the trace records them. The upper end of the gain assumes that all
multiprocessors are used, which is a gain per sample at a larger batch. The lower end is 1.0 (no gain).
"""

from __future__ import annotations

import numpy as np

from gpuwise.diagnose.types import Abstained, Finding, Gain
from gpuwise.diagnose.view import View

__all__ = ["CODE", "check"]

CODE = "small_grids"
_THRESHOLD = 0.5
_MOST = 4.0


def check(view: View) -> Finding | Abstained | None:
    """Find kernel time with less than one block per multiprocessor."""
    scene = view.scene
    if scene.on_cpu:
        return None
    rows = scene.kernels & scene.steady & ~scene.is_class("communication")
    blocks = view.blocks_per_sm
    known = rows & np.isfinite(blocks)
    if not known.any():
        return Abstained(
            code=CODE,
            reason="the trace contains no grid sizes",
            record_next="record with CUDA activities, and name the GPU with --gpu",
        )
    time = scene.work.duration_ns.astype(np.float64)
    total = float(time[known].sum())
    small = known & (blocks < 1.0)
    share = float(time[small].sum()) / total if total else 0.0
    lost_s = view.held_s(small)
    if share < _THRESHOLD or lost_s < 0.05 * view.step_s:
        return None
    filled = float((time[small] * blocks[small]).sum()) / float(time[small].sum())
    best = min(1.0 / max(filled, 1e-3), _MOST)
    return Finding(
        code=CODE,
        title="kernels are too small to fill the GPU",
        seconds_per_step=lost_s,
        share_fraction=lost_s / view.step_s,
        gain=Gain(low=1.0, high=max(1.0, view.gain(lost_s * (1.0 - 1.0 / best)).high)),
        confidence="medium",
        evidence=(
            f"{share:.0%} of kernel time is spent in kernels with too few blocks ({filled:.2f} per multiprocessor on average)",
        ),
        remedy="use a larger batch; a larger GPU would not help",
        verify="with twice the batch, the step should take much less than twice as long",
    )
