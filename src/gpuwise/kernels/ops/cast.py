"""Copies into another type."""

from __future__ import annotations

from gpuwise.kernels.limits import MEMORY_BOUND, as_elementwise, class_columns
from gpuwise.kernels.types import Fusion, OpKind, Split

__all__ = ["CAST"]

CAST = OpKind(
    name="cast",
    sizes=("elements",),
    model=MEMORY_BOUND,
    columns=class_columns("cast"),
    measured=as_elementwise,
    fusion=Fusion.LOOP,
    split=Split.CAST,
    reads_whole=True,
)
