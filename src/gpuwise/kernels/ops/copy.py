"""Copies in the same type, in the same order or another."""

from __future__ import annotations

from gpuwise.kernels.kinds import Fusion, Measured, OpKind, Split
from gpuwise.kernels.memory_bound import MEMORY_BOUND, class_columns

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
