"""Fourier transforms, of complex or real values, along one dimension or several.

Priced by their bytes, at the factor that is assumed of ops nobody measured: a transform does few FLOPs for each value it moves.
"""

from __future__ import annotations

import numpy as np

from gpuwise.kernels.limits import MEMORY_BOUND, as_elementwise, class_columns
from gpuwise.kernels.types import Array, Fusion, OpKind, Signature, Sizes, Split

__all__ = ["FFT"]


def _flops(op: Signature, size: Sizes) -> Array:
    """5 n log2 n, as FFT libraries count; half of it where one side is real. Several dimensions count as their product."""
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
    split=Split.WHOLE,  # every result needs every point
)
