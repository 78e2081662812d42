"""Which model prices which kind of op, and how its parts join into one time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from gpuwise.kernels.attention import attention
from gpuwise.kernels.conv import conv
from gpuwise.kernels.limits import longer
from gpuwise.kernels.matmul import matmul
from gpuwise.kernels.memory_bound import memory_bound
from gpuwise.kernels.rnn import rnn
from gpuwise.kernels.tf32 import or_plain
from gpuwise.kernels.types import Array, Columns, Constants, Cost, Gpus, Ops

__all__ = ["MODELS", "Times", "times"]

Model = Callable[[Columns, Gpus, Constants], Cost]

MODELS: Mapping[str, Model] = {
    "matmul": or_plain(matmul),
    "conv": conv,  # chooses by itself: groups have no TF32
    "attention": or_plain(attention),
    "rnn": or_plain(rnn),
    "memory_bound": memory_bound,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds of each op on each GPU, shape (ops, gpus); what it would take if only arithmetic, or only memory, were there."""

    seconds: Array
    compute_s: Array
    memory_s: Array
    launches: Array


def times(ops: Ops, gpus: Gpus, k: Constants) -> Times:
    """Every op on every GPU. Arithmetic and traffic overlap, not perfectly; every kernel has a start and an end."""
    shape, dtype = (ops.count, len(gpus.names)), gpus.clock.dtype
    k = {name: dtype.type(value) for name, value in k.items()}  # one float64 among them would make all arrays float64
    result = {name: np.zeros(shape, dtype=dtype) for name in ("seconds", "compute_s", "memory_s", "launches")}
    sharp = k["overlap"]
    for group in ops.groups:
        columns = {name: column.astype(dtype, copy=False) for name, column in group.columns.items()}
        cost = MODELS[group.kind](columns, gpus, k)
        compute, memory = np.broadcast_arrays(cost.compute_s, cost.memory_s)
        joined = longer(compute, memory, sharp)
        launches = np.broadcast_to(cost.launches, joined.shape)
        result["seconds"][group.rows] = joined + k["kernel.start_s"] * launches
        result["compute_s"][group.rows] = compute
        result["memory_s"][group.rows] = memory
        result["launches"][group.rows] = launches
    return Times(**result)
