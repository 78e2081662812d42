"""Sorting along rows, and the largest few of each."""

from __future__ import annotations

from gpuwise.kernels.kinds import Fusion, OpKind, Split
from gpuwise.kernels.memory_bound import MEMORY_BOUND, as_elementwise, class_columns

__all__ = ["SORT"]

SORT = OpKind(
    name="sort",
    sizes=("rows", "columns"),
    model=MEMORY_BOUND,
    columns=class_columns("sort"),
    measured=as_elementwise,
    fusion=Fusion.LIBRARY,
    split=Split.FOLLOWS,
)
