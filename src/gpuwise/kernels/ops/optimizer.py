"""Updates of weights: one kernel for a few dozen tensors at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpuwise.kernels.limits import MEMORY_BOUND, as_elementwise, class_columns
from gpuwise.kernels.types import Choices, Fusion, OpKind, Signature, Sizes, Split

__all__ = ["OPTIMIZER"]

_TENSORS_A_LAUNCH = 50.0  # a multi-tensor kernel takes a few dozen tensors at a time


def _columns(ops: Sequence[Signature], size: Sizes, choices: Choices) -> Mapping[str, Any]:
    launches = np.maximum(1.0, np.ceil(size["tensors"] / _TENSORS_A_LAUNCH))
    return {**_classes(ops, size, choices), "launches": launches}


_classes = class_columns("optimizer")

OPTIMIZER = OpKind(
    name="optimizer",
    sizes=("elements", "tensors"),
    model=MEMORY_BOUND,
    columns=_columns,
    measured=as_elementwise,  # `bench` measures whole optimizers and prices updates by those
    reads_whole=True,
    fusion=Fusion.LIST,
    split=Split.FOLLOWS,
)
