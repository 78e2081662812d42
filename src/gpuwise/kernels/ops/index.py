"""Gathers and scatters: reads and writes at positions given by another tensor."""

from __future__ import annotations

from gpuwise.kernels.limits import MEMORY_BOUND, as_elementwise, class_columns
from gpuwise.kernels.types import Fusion, OpKind, Split

__all__ = ["INDEX"]

INDEX = OpKind(
    name="index",
    sizes=("elements",),
    model=MEMORY_BOUND,
    columns=class_columns("index"),
    measured=as_elementwise,
    fusion=Fusion.INDEX,
    split=Split.FOLLOWS,
)
