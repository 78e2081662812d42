"""Ops that apply the same operation to every element: additions, activations, dropout."""

from __future__ import annotations

from gpuwise.kernels.limits import MEMORY_BOUND, as_elementwise, class_columns
from gpuwise.kernels.types import Fusion, OpKind, Split

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
