"""What no kernel of an op goes below on a GPU, whatever software runs it: its FLOPs at the rated peak, and its bytes once each at
the rated bandwidth, without those that a cache may hold.

Nothing here is fitted. Cards that run above their rated clock may do a little better; the models then say the rated figure.
"""

from __future__ import annotations

import numpy as np

from gpuwise.kernels.registry import MODELS
from gpuwise.kernels.types import Array, Columns, Gpus, Ops, dtype_code

__all__ = ["floors_s"]

_FP32, _TF32 = dtype_code("fp32"), dtype_code("tf32")
_CACHES = 2.0  # weights of more than so many caches are gone from them before they are read again, assumed


def floors_s(ops: Ops, gpus: Gpus) -> Array:
    """Seconds of each op on each GPU, (ops, gpus)."""
    found = np.zeros((ops.count, len(gpus.names)), dtype=gpus.clock.dtype)
    for group in ops.groups:
        op = {name: column.astype(found.dtype, copy=False) for name, column in group.columns.items()}
        least = _moving(op, gpus)
        least_flops = MODELS[group.kind].least_flops
        if least_flops is not None:
            least = np.maximum(least, least_flops(op) / _peak(op, gpus))
        found[group.rows] = least
    return found


def _peak(op: Columns, gpu: Gpus) -> Array:
    """The rated FLOP/s of the engine; what may run as TF32 may also run in fp32."""
    code = op["dtype"][:, 0].astype(np.intp)
    result: Array = np.where(op["dtype"] == _TF32, np.maximum(gpu.peak[_TF32], gpu.peak[_FP32]), gpu.peak[code])
    return result


def _moving(op: Columns, gpu: Gpus) -> Array:
    """Weights come from memory where there are more than caches keep until their next use; of all else, what no cache holds."""
    cold = np.where(op["weights"] > _CACHES * gpu.cache, op["cold"], 0.0) if "cold" in op else 0.0
    other = np.maximum(op["read"] + op["written"] - cold - gpu.cache, 0.0)
    result: Array = (cold + other) / gpu.bandwidth
    return result
