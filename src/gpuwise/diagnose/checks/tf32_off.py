"""TF32 is off on a GPU that supports it.

## What it detects
On Ampere and newer GPUs, this check looks for true fp32 matrix kernels that take at least 5% of kernel time.

## Why it costs time
TF32 runs the same code on the matrix units, at four to eight times the rate of fp32, with 10 bits of mantissa in the
products. PyTorch leaves it off for matmuls.

## What to do
Call `torch.set_float32_matmul_precision("high")`. For convolutions, keep `torch.backends.cudnn.allow_tf32 = True` (the
default).

## Confidence
Confidence is high if the kernel names show which unit they use. The gain is computed with the kernel models for TF32,
with the same bounds as in `fp32_matmul`, except that TF32 needs no casts.
"""

from __future__ import annotations

import numpy as np

from gpuwise.diagnose import shapes, whatif
from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View

__all__ = ["CODE", "check"]

CODE = "tf32_off"
_THRESHOLD = 0.05


def check(view: View) -> Finding | None:
    """Find fp32 kernels on a GPU that has TF32."""
    gpu = view.gpu
    if gpu is None or view.scene.on_cpu or not gpu.peak_flops_per_s.get("matrix", {}).get("tf32"):
        return None
    chosen = view.scene.is_unit("fp32")
    lost_s = view.work_s(chosen)
    if lost_s < _THRESHOLD * view.kernel_s or view.kernel_s <= 0:
        return None
    _, high = whatif.speed_up(shapes.products(view.scene), gpu, "fp32", "tf32")
    least = np.where(chosen, whatif.least_factors(view.scene.work.duration_ns, high), 1.0)
    saved = view.exposed_s(chosen) * (1.0 - 1.0 / high)
    return Finding(
        code=CODE,
        title=f"TF32 is off on the {gpu.name}",
        seconds_per_step=view.held_s(chosen),
        share_fraction=view.held_s(chosen) / view.step_s,
        gain=view.gain(saved, likely=view.multiplied(least)),
        confidence="high",
        evidence=(f"{lost_s / view.kernel_s:.1%} of kernel time is spent on matrix work in true fp32",),
        remedy='torch.set_float32_matmul_precision("high")',
        verify="kernel names should contain tf32, s1688 or s16816",
    )
