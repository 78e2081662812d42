"""Softmax along rows, and its gradient."""

from __future__ import annotations

from gpuwise.kernels.limits import MEMORY_BOUND, class_columns
from gpuwise.kernels.types import Fusion, Measured, OpKind, Split, half_of

__all__ = ["SOFTMAX"]

SOFTMAX = OpKind(
    name="softmax",
    sizes=("rows", "columns"),
    model=MEMORY_BOUND,
    columns=class_columns("softmax"),
    measured=lambda op, size: Measured((f"softmax.{half_of(op)}",)),
    fusion=Fusion.ROWS,
    split=Split.FOLLOWS,
    divided=("columns",),
)
