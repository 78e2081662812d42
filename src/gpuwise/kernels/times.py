"""How long ops take: every op by the model of its kind, and how the parts of its cost join into one time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuwise.kernels.limits import longer
from gpuwise.kernels.registry import MODELS
from gpuwise.kernels.types import Array, Constants, Gpus, Ops

__all__ = ["Times", "times"]


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
        cost = MODELS[group.kind].price(columns, gpus, k)
        compute, memory = np.broadcast_arrays(cost.compute_s, cost.memory_s)
        joined = longer(compute, memory, sharp)
        launches = np.broadcast_to(cost.launches, joined.shape)
        result["seconds"][group.rows] = joined + k["kernel.start_s"] * launches
        result["compute_s"][group.rows] = compute
        result["memory_s"][group.rows] = memory
        result["launches"][group.rows] = launches
    return Times(**result)
