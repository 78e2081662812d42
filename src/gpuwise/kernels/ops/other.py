"""Ops that no capture rule recognises. Their time depends on their bytes, and the answer lists them."""

from __future__ import annotations

from gpuwise.kernels.limits import MEMORY_BOUND, as_elementwise, class_columns
from gpuwise.kernels.types import Fusion, OpKind, Split

__all__ = ["OTHER"]

OTHER = OpKind(
    name="other",
    sizes=("elements",),
    model=MEMORY_BOUND,
    columns=class_columns("other"),
    measured=as_elementwise,
    fusion=Fusion.LIBRARY,
    split=Split.FOLLOWS,
)
