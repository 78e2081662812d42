"""Random numbers."""

from __future__ import annotations

from gpuwise.kernels.limits import MEMORY_BOUND, class_columns
from gpuwise.kernels.types import Fusion, Measured, OpKind, Split

__all__ = ["RANDOM"]

RANDOM = OpKind(
    name="random",
    sizes=("elements",),
    model=MEMORY_BOUND,
    columns=class_columns("random"),
    measured=lambda op, size: Measured(("random",)),
    fusion=Fusion.RANDOM,
    split=Split.FOLLOWS,
)
