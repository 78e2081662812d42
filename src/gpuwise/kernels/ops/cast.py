"""Copies in another type."""

from __future__ import annotations

from gpuwise.kernels.kinds import Fusion, OpKind, Split
from gpuwise.kernels.memory_bound import MEMORY_BOUND, as_elementwise, class_columns

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
