"""Ops whose time is the bytes they move: element by element, row by row, gathers, updates. One factor a class.

A factor says how many times the op moves the bytes that its tensors have: two passes over a batch norm's input, atomics, strided
reads. They are fitted; 1 is a perfect single pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gpuwise.kernels.kinds import KernelModel, Measured, Sizes
from gpuwise.kernels.limits import moved_s, touched
from gpuwise.kernels.types import Choices, Columns, Constants, Cost, Gpus, Signature

__all__ = ["CLASSES", "MEMORY_BOUND", "as_elementwise", "class_columns", "memory_bound"]

# The column `class` of an op is its place here.
CLASSES = (
    "elementwise",
    "reduction",
    "batch_norm",
    "batch_norm_backward",
    "row_norm",
    "row_norm_backward",
    "softmax",
    "loss",
    "pool",
    "pool_backward",
    "cast",
    "copy",
    "index",
    "embedding",
    "embedding_backward",
    "optimizer",
    "sort",
    "random",
    "other",
    "batch_norm_infer",
    "group_norm_nhwc",
)
_CLASS = {name: float(place) for place, name in enumerate(CLASSES)}
_CURVES = ("gelu", "tanh", "sigmoid", "silu", "exp", "erf", "log", "softplus", "elu", "mish", "hardswish", "pow", "sin", "cos")
_BY_ROW = [name in ("row_norm", "row_norm_backward", "softmax") for name in CLASSES]


def memory_bound(op: Columns, gpu: Gpus, k: Constants) -> Cost:
    """Bytes times the factor of the op's class."""
    factors = np.array([k[f"bytes.{name}"] for name in CLASSES])
    which = op["class"].astype(np.intp)
    seconds = moved_s(op, gpu, k, factors[which])
    looked = op["looked"] / (gpu.lanes * gpu.clock * k["pool.values_per_clock"])  # a window looks at each value several times
    rows = np.where(np.array(_BY_ROW)[which], touched(op), 0.0) / (gpu.units * gpu.clock * k["row.bytes_per_clock"])
    return Cost(compute_s=looked + rows, memory_s=seconds, launches=op["launches"])


MEMORY_BOUND = KernelModel(name="memory_bound", price=memory_bound)


def class_columns(
    class_of: str | Callable[[Signature, Choices], str],
) -> Callable[[Sequence[Signature], Sizes, Choices], Mapping[str, Any]]:
    """The columns of ops of this class, or of the class of each; a compiler may make several launches of one."""

    def columns(ops: Sequence[Signature], size: Sizes, choices: Choices) -> Mapping[str, Any]:
        names = [class_of if isinstance(class_of, str) else class_of(op, choices) for op in ops]
        launches = [op.attrs.get("launches", 1) for op in ops]
        return {"class": [_CLASS[name] for name in names], "launches": launches, "looked": 0.0}

    return columns


def as_elementwise(op: Signature, size: Mapping[str, float]) -> Measured:
    """Measured as loops over elements are, with a curve (gelu) where the op's name says one, else as an addition."""
    return Measured(("curve" if any(word in op.name for word in _CURVES) else "elementwise",))
