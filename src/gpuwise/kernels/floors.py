"""What no kernel of an op goes below on a GPU, whatever software runs it: its FLOPs at the rated peak, and its bytes once each at
the rated bandwidth, without those that a cache may hold.

Nothing here is fitted. Cards that run above their rated clock may do a little better; the models then say the rated figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from gpuwise.kernels.types import Array, Columns, Gpus, Ops, dtype_code

__all__ = ["floors_s"]

_FP32, _TF32 = dtype_code("fp32"), dtype_code("tf32")
_SAVED = 4.0  # products of F(4×4, 3×3) against those of the sum: Lavin and Gray 2015; other windows may run by FFT
_CACHES = 2.0  # weights of more than so many caches are gone from them before they are read again, assumed


def floors_s(ops: Ops, gpus: Gpus) -> Array:
    """Seconds of each op on each GPU, (ops, gpus)."""
    found = np.zeros((ops.count, len(gpus.names)), dtype=gpus.clock.dtype)
    for group in ops.groups:
        op = {name: column.astype(found.dtype, copy=False) for name, column in group.columns.items()}
        least = _moving(op, gpus)
        if group.kind in _FLOPS:
            least = np.maximum(least, _FLOPS[group.kind](op) / _peak(op, gpus))
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


def _matmul(op: Columns) -> Array:
    result: Array = 2.0 * op["batch"] * op["m"] * op["n"] * op["k"]
    return result


def _conv(op: Columns) -> Array:
    """Windows that overlap may need fewer products. Of one channel a group, which runs on vector lanes, nothing is claimed."""
    flops = 2.0 * op["n"] * op["out_positions"] * op["c_in"] * op["c_out"] / op["groups"] * op["kernel"]
    overlaps = (op["kernel"] > 1) & (op["strided"] == 0)
    result: Array = np.where(op["depthwise"] > 0, 0.0, flops / np.where(overlaps, _SAVED, 1.0))
    return result


def _attention(op: Columns) -> Array:
    """Two products forward, four backward; half of them under a causal mask."""
    products = 2.0 * (1.0 + op["backward"])
    flops = 2.0 * products * op["batch"] * op["heads"] * op["q_len"] * op["kv_len"] * op["head_dim"]
    result: Array = flops * np.where(op["causal"] > 0, 0.5, 1.0)
    return result


def _rnn(op: Columns) -> Array:
    later = np.maximum(op["layers"] - 1.0, 0.0) * op["hidden"] * op["directions"]
    deep = op["input"] + later + op["layers"] * op["hidden"]
    result: Array = (
        2.0 * op["steps"] * op["batch"] * op["gates"] * op["hidden"] * op["directions"] * deep * (1.0 + op["backward"])
    )
    return result


_FLOPS: Mapping[str, Callable[[Columns], Array]] = {"matmul": _matmul, "conv": _conv, "attention": _attention, "rnn": _rnn}
