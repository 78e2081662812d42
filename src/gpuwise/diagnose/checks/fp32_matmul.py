"""Matrix work runs in fp32 while the matrix units are idle.

## What it detects
This check looks for matmul, convolution and attention kernels that do not use matrix units (`sgemm`, `scudnn`, `ffma`,
`<float>`) and take at least 10% of kernel time, on a GPU that has 16-bit matrix units.

## Why it costs time
Tensor cores compute 16-bit matrix products four to sixteen times as fast as the vector lanes compute fp32 products, and
16-bit tensors halve the memory traffic.

## What to do
Use `torch.autocast("cuda", dtype=torch.bfloat16)`, or `float16` with a `GradScaler` on GPUs older than Ampere. In
Keras, call `mixed_precision.set_global_policy("mixed_float16")`. On Ampere and newer GPUs, one line turns on TF32 (see
`tf32_off`).

## Confidence
Confidence is high if the kernel names show which unit they use. The gain is computed with the kernel models of
`gpuwise predict` for the shapes in the trace, or for square matrix products if the trace has no shapes. The lower end comes from
a replay in which kernels longer than 24 µs become at most 1.6 times as fast and shorter ones hardly change. Casts to 16
bits are added, and all other kernels, launches and data loading take as long as before.
"""

from __future__ import annotations

import numpy as np

from gpuwise.diagnose import shapes, whatif
from gpuwise.diagnose.types import Abstained, Finding
from gpuwise.diagnose.view import View

__all__ = ["CODE", "check"]

CODE = "fp32_matmul"
_THRESHOLD = 0.1


def check(view: View) -> Finding | Abstained | None:
    """Find matrix work that runs on the vector lanes."""
    if view.scene.on_cpu:
        return None
    chosen = view.scene.is_unit("fp32")
    lost_s = view.work_s(chosen)
    kernel_s = view.kernel_s
    if kernel_s <= 0 or lost_s < _THRESHOLD * kernel_s:
        return None
    if view.gpu is None:
        return Abstained(
            code=CODE,
            reason=f"{lost_s / kernel_s:.0%} of kernel time is fp32 matrix work, but the GPU is unknown",
            record_next="name the GPU with --gpu",
        )
    half = whatif.half_type(view.gpu)
    if half is None:
        return None
    products = shapes.products(view.scene)
    _, high = whatif.speed_up(products, view.gpu, "fp32", half)
    casts = whatif.cast_share(products, view.gpu, lost_s * max(view.scene.steps.steady_count, 1))
    least = np.where(chosen, whatif.least_factors(view.scene.work.duration_ns, high, casts), 1.0)
    saved = view.exposed_s(chosen) * (1.0 - 1.0 / high)
    return Finding(
        code=CODE,
        title=f"matrix work runs in fp32, although the {view.gpu.name} has matrix units",
        seconds_per_step=view.held_s(chosen),
        share_fraction=view.held_s(chosen) / view.step_s,
        gain=view.gain(saved, likely=view.multiplied(least)),
        confidence="high",
        evidence=(
            f"{lost_s / kernel_s:.1%} of kernel time is spent in fp32 matmul, convolution or attention kernels",
            f"in {half}, these kernels are predicted to be up to {high:.1f} times as fast",
            f"casts to {half} would take {casts:.0%} as long as these kernels take now",
        ),
        remedy=f"use torch.autocast('cuda', dtype=torch.{'bfloat16' if half == 'bf16' else 'float16'})"
        + ("" if half == "bf16" else " with a GradScaler"),
        verify="kernel names should contain tensorop, 16816, 884 or h…gemm instead of sgemm",
    )
