"""Copies in the same type, in the same or another memory order."""

from __future__ import annotations

from gpuwise.kernels.limits import MEMORY_BOUND, class_columns
from gpuwise.kernels.types import Fusion, Measured, OpKind, Split

__all__ = ["COPY"]

COPY = OpKind(
    name="copy",
    sizes=("elements",),
    model=MEMORY_BOUND,
    columns=class_columns("copy"),
    measured=lambda op, size: Measured(("copy",)),
    fusion=Fusion.COPY,
    split=Split.CAST,
)
