"""Weight updates: one kernel for a few dozen tensors at a time."""

from __future__ import annotations

from gpuwise.kernels.limits import MEMORY_BOUND, as_elementwise, class_columns
from gpuwise.kernels.types import Fusion, OpKind, Split

__all__ = ["OPTIMIZER"]

_TENSORS_A_LAUNCH = 50.0  # a multi-tensor kernel handles a few dozen tensors at a time


OPTIMIZER = OpKind(
    name="optimizer",
    sizes=("elements", "tensors"),
    model=MEMORY_BOUND,
    columns=class_columns("optimizer", tensors_a_launch=_TENSORS_A_LAUNCH),
    measured=as_elementwise,  # `bench` measures whole optimizers and derives the times of updates from them
    reads_whole=True,
    fusion=Fusion.LIST,
    split=Split.FOLLOWS,
)
