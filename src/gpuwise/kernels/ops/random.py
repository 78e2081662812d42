"""Random numbers."""

from __future__ import annotations

from gpuwise.kernels.kinds import Fusion, Measured, OpKind, Split
from gpuwise.kernels.memory_bound import MEMORY_BOUND, class_columns

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
