"""Fourier transforms of complex or real values, along one or several dimensions.

The time depends on the bytes moved, with the factor assumed for unmeasured ops: a transform does few FLOPs per value moved.
"""

from __future__ import annotations

import numpy as np

from gpuwise.kernels.limits import MEMORY_BOUND, as_elementwise, class_columns
from gpuwise.kernels.types import Array, Fusion, OpKind, Signature, Sizes, Split

__all__ = ["FFT"]


def _flops(op: Signature, size: Sizes) -> Array:
    """5 n log2 n, as FFT libraries count, or half of that if one side is real. For several dimensions, n is their product."""
    whole: Array = 5.0 * size["batch"] * size["points"] * np.log2(np.maximum(size["points"], 1.0))
    return whole if "c2c" in op.name else whole / 2.0


FFT = OpKind(
    name="fft",
    sizes=("batch", "points"),
    model=MEMORY_BOUND,
    columns=class_columns("other"),
    flops=_flops,
    measured=as_elementwise,
    fusion=Fusion.LIBRARY,
    split=Split.WHOLE,  # every result depends on every point
)
