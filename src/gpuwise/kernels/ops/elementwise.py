"""Ops that do the same to every element: additions, activations, dropout."""

from __future__ import annotations

from gpuwise.kernels.kinds import Fusion, OpKind, Split
from gpuwise.kernels.memory_bound import MEMORY_BOUND, as_elementwise, class_columns

__all__ = ["ELEMENTWISE"]

ELEMENTWISE = OpKind(
    name="elementwise",
    sizes=("elements",),
    model=MEMORY_BOUND,
    columns=class_columns("elementwise"),
    measured=as_elementwise,
    fusion=Fusion.LOOP,
    split=Split.ADDS,
)
