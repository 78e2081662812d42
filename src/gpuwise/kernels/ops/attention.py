"""Attention: one fused kernel that never writes the scores (flash or memory-efficient), or the separate products and softmax.

Decoding reads the whole cache of keys and values for a single row of scores, so it is bound by memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpuwise.kernels.limits import either, longer, moved_s, or_plain, peak_of, powered, tiled_s
from gpuwise.kernels.types import (
    Array,
    Choices,
    Columns,
    Constants,
    Cost,
    Fusion,
    Gpus,
    KernelModel,
    Measured,
    OpKind,
    Signature,
    Sizes,
    Split,
    dtype_code,
    engine_code,
    half_of,
)

__all__ = ["ATTENTION", "attention"]

_FLOPS_PER_CLOCK = 512.0  # the rate of one unit: a GeForce matrix engine in fp16
_TF32 = dtype_code("tf32")
_FP32_SCORES = 1.7  # their bytes relative to 16-bit scores with softmax in fp32: 34 to 20, by counting kernels
_HALF = 2.0  # bytes of a key or value in 16 bits
_ROWS = 64.0  # rows of scores that one unit works on


def attention(op: Columns, gpu: Gpus, k: Constants) -> Cost:
    """Attention is one fused kernel unless the column `unfused` says that the software has none."""
    unfused = op["unfused"] > 0
    if not unfused.any():
        return _fused(op, gpu, k)
    if unfused.all():
        return _unfused(op, gpu, k)
    fused, apart = _fused(op, gpu, k), _unfused(op, gpu, k)
    return Cost(
        compute_s=np.where(unfused, apart.compute_s, fused.compute_s),
        memory_s=np.where(unfused, apart.memory_s, fused.memory_s),
        launches=np.where(unfused, apart.launches, fused.launches),
    )


def _fused(op: Columns, gpu: Gpus, k: Constants) -> Cost:
    peak, matrix = peak_of(op, gpu, k)
    products = 2.0 + 3.0 * op["backward"]
    rows = np.where(op["q_len"] > 1, np.ceil(op["q_len"] / _ROWS) * _ROWS, op["q_len"])
    keys = np.ceil(op["kv_len"] / _ROWS) * _ROWS
    flops = products * 2.0 * op["batch"] * op["heads"] * rows * keys * op["head_dim"]
    flops = flops * either(op["causal"], 0.5 + 0.5 / _blocks(op), 1.0)
    name = np.where(op["backward"] > 0, k["attention.backward"], k["attention.forward"])
    efficient = either(matrix, k["attention.efficient"], 1.0)  # vector lanes have no tiles to fill poorly
    slower = np.where(gpu.flash > 0, np.where(op["masked"] > 0, either(matrix, k["attention.masked"], 1.0), 1.0), efficient)
    small = either(matrix, np.minimum(1.0, op["head_dim"] / 64.0) ** k["attention.small_heads"], 1.0)
    parallel = op["batch"] * np.where(op["q_len"] > 1, op["heads"], op["kv_heads"]) * np.ceil(op["q_len"] / _ROWS)
    filled = np.where(op["q_len"] > 1, np.minimum(1.0, parallel / gpu.units), 1.0)  # decoding splits the keys
    wider = np.maximum(1.0, peak / gpu.units / gpu.clock / _FLOPS_PER_CLOCK)  # softmax does not get faster with the matrix engine
    name = name * wider ** -k["attention.growth"]
    reached = peak * either(matrix, name, k["attention.vector"]) * slower * small
    if "rate" in op:  # a step may specify a slower kernel than the usual one
        reached = reached * op["rate"]
    begun = np.maximum(1.0, parallel / gpu.units) * k["attention.block_clocks"] / gpu.clock
    memory = moved_s(op, gpu, k, np.where(op["q_len"] > 1, 1.0, k["attention.cache"]))
    if k["attention.expand"]:
        memory = memory + _expanded_s(op, gpu, k)
    return Cost(compute_s=longer(flops / (reached * filled), flops / powered(gpu, k, reached, matrix)) + begun, memory_s=memory)


def _expanded_s(op: Columns, gpu: Gpus, k: Constants) -> Array:
    """Return the seconds in decoding for software that first copies keys and values for every head that shares them."""
    shared = (op["kv_heads"] < op["heads"]) & (op["q_len"] == 1)
    copied = np.where(shared, op["batch"] * op["heads"] * op["kv_len"] * (op["head_dim"] + op["value_dim"]), 0.0)
    return moved_s({"read": copied * _HALF, "written": copied * _HALF}, gpu, k, k["attention.expand"] / 2.0)


def _blocks(op: Columns) -> Array:
    return np.maximum(1.0, op["kv_len"] / 128.0)


def _unfused(op: Columns, gpu: Gpus, k: Constants) -> Cost:
    """Scores are written, scaled, normalised in fp32 and read again; the backward pass does this twice."""
    peak, matrix = peak_of(op, gpu, k)
    backward = op["backward"] > 0
    heads = op["batch"] * op["heads"]
    reached = peak * either(matrix, k["matmul.matrix"], k["matmul.vector"])
    one = tiled_s(heads, op["q_len"], op["kv_len"], op["head_dim"], op["dtype"], reached, gpu, k)
    other = tiled_s(heads, op["q_len"], op["head_dim"], op["kv_len"], op["dtype"], reached, gpu, k)
    scores = heads * op["q_len"] * op["kv_len"]
    products = longer(one + other, 4.0 * scores * op["head_dim"] / powered(gpu, k, reached, matrix))
    passes = np.where(backward, k["attention.score_bytes.backward"], k["attention.score_bytes.forward"])
    passes = passes * either((op["dtype"] <= _TF32).astype(peak.dtype), _FP32_SCORES, 1.0)
    columns = {"read": scores * passes / 2, "written": scores * passes / 2}
    return Cost(
        compute_s=(1.0 + op["backward"]) * products,
        memory_s=moved_s(op, gpu, k) + moved_s(columns, gpu, k),
        launches=5.0 + 3.0 * op["backward"],
    )


def _least_flops(op: Columns) -> Array:
    """Two products in the forward pass and four in the backward pass; half of them under a causal mask."""
    products = 2.0 * (1.0 + op["backward"])
    flops = 2.0 * products * op["batch"] * op["heads"] * op["q_len"] * op["kv_len"] * op["head_dim"]
    result: Array = flops * np.where(op["causal"] > 0, 0.5, 1.0)
    return result


def _columns(ops: Sequence[Signature], size: Sizes, choices: Choices) -> Mapping[str, Any]:
    return {
        **size,
        "dtype": [engine_code(op, choices.tf32) for op in ops],
        "backward": [op.attrs["pass"] == "backward" for op in ops],
        "causal": [bool(op.attrs["causal"]) for op in ops],
        "masked": [bool(op.attrs.get("mask")) and "rate" not in op.attrs for op in ops],  # flash kernels take none
        "rate": [float(str(op.attrs.get("rate", 1.0))) for op in ops],
        "unfused": [not choices.fused_attention or bool(op.attrs.get("apart")) for op in ops],
    }


def _flops(op: Signature, size: Sizes) -> Array:
    """Two products in the forward pass and five in the backward pass, which recomputes the scores. Causal masks are not
    discounted.
    """
    scores = 2 * size["batch"] * size["heads"] * size["q_len"] * size["kv_len"]
    each = size["head_dim"] + size["value_dim"]
    if op.attrs["pass"] != "forward":
        each = 3 * size["head_dim"] + 2 * size["value_dim"]
    result: Array = scores * each
    return result


def _measured(op: Signature, size: Mapping[str, float]) -> Measured:
    return Measured((f"attention.{half_of(op)}",), (size["batch"], size["heads"], size["q_len"], size["head_dim"]))


ATTENTION = OpKind(
    name="attention",
    sizes=("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim", "value_dim"),
    attrs=("causal",),
    passes=("forward", "backward"),
    model=KernelModel(name="attention", price=or_plain(attention), least_flops=_least_flops),
    columns=_columns,
    flops=_flops,
    needed=lambda op: 0.5 if op.attrs["causal"] else 1.0,
    measured=_measured,
    is_layer=True,
    is_product=True,
    reads_whole=True,
    fusion=Fusion.LIBRARY,
    split=Split.HEADS,
    divided=("heads", "kv_heads"),
)
