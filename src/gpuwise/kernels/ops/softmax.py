"""Softmax along rows, and its gradient."""

from __future__ import annotations

from gpuwise.kernels.limits import MEMORY_BOUND, as_softmax, class_columns
from gpuwise.kernels.types import Fusion, OpKind, Split

__all__ = ["SOFTMAX"]

SOFTMAX = OpKind(
    name="softmax",
    sizes=("rows", "columns"),
    model=MEMORY_BOUND,
    columns=class_columns("softmax"),
    measured=as_softmax,
    fusion=Fusion.ROWS,
    split=Split.FOLLOWS,
    divided=("columns",),
)
