"""Ops whose time is the bytes they move: element by element, row by row, gathers, updates. One factor a class.

A factor says how many times the op moves the bytes that its tensors have: two passes over a batch norm's input, atomics, strided
reads. They are fitted; 1 is a perfect single pass.
"""

from __future__ import annotations

import numpy as np

from gpuwise.kernels.limits import moved_s, touched
from gpuwise.kernels.types import Columns, Constants, Cost, Gpus

__all__ = ["CLASSES", "memory_bound"]

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
_BY_ROW = [name in ("row_norm", "row_norm_backward", "softmax") for name in CLASSES]


def memory_bound(op: Columns, gpu: Gpus, k: Constants) -> Cost:
    """Bytes times the factor of the op's class."""
    factors = np.array([k[f"bytes.{name}"] for name in CLASSES])
    which = op["class"].astype(np.intp)
    seconds = moved_s(op, gpu, k, factors[which])
    looked = op["looked"] / (gpu.lanes * gpu.clock * k["pool.values_per_clock"])  # a window looks at each value several times
    rows = np.where(np.array(_BY_ROW)[which], touched(op), 0.0) / (gpu.units * gpu.clock * k["row.bytes_per_clock"])
    return Cost(compute_s=looked + rows, memory_s=seconds, launches=op["launches"])
