"""Losses that compare rows of scores with a target. Like softmax, they are one pass along each row."""

from __future__ import annotations

from gpuwise.kernels.limits import MEMORY_BOUND, as_softmax, class_columns
from gpuwise.kernels.types import Fusion, OpKind, Split

__all__ = ["LOSS"]

LOSS = OpKind(
    name="loss",
    sizes=("rows", "columns"),
    model=MEMORY_BOUND,
    columns=class_columns("loss"),
    measured=as_softmax,
    fusion=Fusion.LOSS,
    split=Split.LOSS,
    divided=("columns",),
)
