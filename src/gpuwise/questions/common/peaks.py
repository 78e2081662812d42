"""The peak to compare a step with: that of the types it computes in, whatever its precision is called."""

from __future__ import annotations

import numpy as np

from gpuwise.hardware.types import Gpu, convolves_in_tf32
from gpuwise.kernels.registry import KINDS
from gpuwise.step.types import Setting
from gpuwise.workload.model.evaluate import call_counts, op_flops, product_values
from gpuwise.workload.model.types import Workload

__all__ = ["above_peak", "peak_in", "step_peak", "tf32_fraction"]

_WINDOW = KINDS["conv"].sizes.index("kernel")


def peak_in(gpu: Gpu, precision: str) -> float | None:
    """Return the highest FLOP/s in this precision. If a GPU has no 16-bit rate, or a very low one as on GTX 10, libraries
    convert and compute in fp32, so that peak counts.
    """
    dtype = {"fp32": "fp32", "tf32": "tf32", "bf16": "bf16", "amp-bf16": "bf16", "fp8": "fp8"}.get(precision, "fp16")
    return max(gpu.best_peak(dtype) or 0.0, gpu.best_peak("fp32") or 0.0) or None


def tf32_fraction(workload: Workload, setting: Setting, gpu: Gpu) -> float:
    """The fraction of an fp32 step's products that this GPU runs as TF32: its convolutions, or none."""
    if not setting.tf32_convolutions or not convolves_in_tf32(gpu):
        return 0.0
    flops = op_flops(workload, product_values(workload))[0] * call_counts(workload).sum(axis=0)
    rounded = np.array([op.kind == "conv" and op.dtype == "fp32" for op in workload.ops])
    return float(flops[rounded].sum() / max(flops.sum(), 1.0))


def step_peak(gpu: Gpu, precision: str, rounded: float) -> float | None:
    """Return the highest FLOP/s with a fraction `rounded` of the products in TF32 and the others in the step's precision."""
    peak, faster = peak_in(gpu, precision), gpu.best_peak("tf32")
    if peak is None or faster is None or not rounded:
        return peak
    return 1.0 / (rounded / max(peak, faster) + (1.0 - rounded) / peak)


def above_peak(workload: Workload, *, measured: bool) -> str:
    """Return why a step can take less time than its counted products need at the peak."""
    if measured:
        return "your step is faster than the GPU's peak allows; check the batch size and precision of your measurement"
    windows = product_values(workload)[0, [op.sizes[_WINDOW] for op in workload.ops if op.kind == "conv"]]
    if (windows == 9).any():
        return "3×3 convolutions use Winograd algorithms, which need fewer operations than the nominal count"
    return "this is based on the model's nominal operation count; libraries may need fewer operations"
