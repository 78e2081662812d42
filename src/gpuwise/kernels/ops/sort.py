"""Sorting along rows, and top-k of each row."""

from __future__ import annotations

from gpuwise.kernels.limits import MEMORY_BOUND, as_elementwise, class_columns
from gpuwise.kernels.types import Fusion, OpKind, Split

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
