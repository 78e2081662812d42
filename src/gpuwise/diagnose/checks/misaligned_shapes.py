"""Matrix sizes are not aligned to the matrix units.

## What it detects
This check looks for matrix kernels with `align1` or `align2` in their name, and for matrix products whose sizes are not
multiples of 8 (16 for 8-bit types). It reports them if they take at least 5% of the step.

## Why it costs time
Matrix units load operands in 16-byte pieces. Unaligned sizes force narrow loads, or prevent the use of the matrix units
altogether.

## What to do
Pad the vocabulary, embedding, hidden and batch sizes to a multiple of 8, or preferably of 64.

## Confidence
Confidence is high if the kernel name contains `align1`, and medium if only the shapes show the problem. The gain is
computed with the kernel models for padded sizes. Without shapes, gpuwise uses the fitted cost of unaligned kernels.
"""

from __future__ import annotations

from gpuwise.diagnose import shapes, whatif
from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View
from gpuwise.kernels.times import load_constants

__all__ = ["CODE", "check"]

CODE = "misaligned_shapes"
_THRESHOLD = 0.05
_LEAST = 1.01
_MULTIPLE = {"fp16": 8, "bf16": 8, "fp32": 8, "int8": 16, "fp8": 16}


def check(view: View) -> Finding | None:
    """Find kernels for odd sizes on the matrix units."""
    if view.scene.on_cpu:
        return None
    chosen = view.scene.is_unit("matrix") & view.scene.named("align1", "align2", "aligna1", "aligna2")
    lost_s = view.held_s(chosen)
    if lost_s < _THRESHOLD * view.step_s:
        return None
    odd = {
        product: count
        for product, count in shapes.products(view.scene).items()
        if any(size % _MULTIPLE.get(product.dtype, 8) for size in (product.m, product.n, product.k))
    }
    high = whatif.padded(odd, view.gpu, 8) if odd and view.gpu is not None else load_constants()["matmul.unaligned"]
    if high < _LEAST:
        return None
    worst = sorted(odd, key=lambda product: -product.flops * odd[product])[:2]
    sizes = "; ".join(f"{product.m}×{product.k} by {product.k}×{product.n}" for product in worst)
    saved = view.exposed_s(chosen) * (1.0 - 1.0 / high)
    return Finding(
        code=CODE,
        title="matrix sizes are not aligned to the matrix units",
        seconds_per_step=lost_s,
        share_fraction=lost_s / view.step_s,
        gain=view.gain(saved, likely=view.shrink(chosen, 1.0 / (1.0 + 0.5 * (high - 1.0)))),
        confidence="high",
        evidence=(
            f"{lost_s / view.kernel_s:.1%} of kernel time is spent in align1 or align2 kernels" + (f": {sizes}" if sizes else ""),
        ),
        remedy="pad the vocabulary, hidden sizes and batch to multiples of 8, or preferably 64",
        verify="kernel names should contain align8 or align4",
    )
