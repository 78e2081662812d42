"""A linear layer of a model that generates text: few rows or many, and weights that may be packed.

How well kernels do this depends on the software far more than on the GPU: `step/data/engines` has the constants of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpuwise.kernels.limits import either, longer, moved_s, or_plain, powered
from gpuwise.kernels.ops.matmul import matmul
from gpuwise.kernels.types import (
    DTYPE_BYTES,
    MAKERS,
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
)

__all__ = ["LINEAR", "held_columns", "linear"]

_UNPACKED = 1000.0  # FLOPs a clock of a unit that unpacks weights: beyond, the matrix engine does the work, for less energy each
_BYTES_16 = 2.0
_FP16, _BF16 = dtype_code("fp16"), dtype_code("bf16")
_FEW = 8.0  # tokens: up to so many, kernels multiply a vector at a time and work in proportion to them


def linear(op: Columns, gpu: Gpus, k: Constants) -> Cost:
    """Weights stream from memory as fast as bandwidth and units allow; many tokens are products like others.

    `tokens` × `chosen` rows meet `experts` matrices of n × k; an ordinary layer has one matrix, which every token takes. Of many
    matrices only those are read that some token goes to: few with a few tokens, all of them with many. Tokens are taken to
    choose evenly, each by itself.
    """
    missed = (1.0 - op["chosen"] / op["experts"]) ** op["tokens"]
    matrices = np.maximum(op["experts"] * (1.0 - missed), 1.0)
    rows = op["tokens"] * op["chosen"] / matrices
    read = op["read"] + np.where(op["experts"] > 1, matrices * op["n"] * op["k"] * op["width"], 0.0)
    each = {"batch": matrices, "m": rows, "n": op["n"], "k": op["k"], "dtype": op["dtype"], "aligned": np.ones_like(op["n"])}
    each |= {"read": read, "written": op["written"]}
    flops = 2.0 * op["tokens"] * op["chosen"] * op["n"] * op["k"]
    makers = np.array([1.0, *(k[f"linear.{name}"] for name in MAKERS)], dtype=gpu.clock.dtype)
    clocks = gpu.units * gpu.clock * makers[gpu.maker.astype(np.intp)]
    rate = clocks * k["linear.flops_per_clock"]  # of kernels that leave a newer engine's instructions unused
    busy = gpu.units * gpu.clock * min(_UNPACKED, k["linear.flops_per_clock"])
    capped = flops / (rate * np.minimum(1.0, powered(gpu, k, busy, 0.0) / busy))  # at the clock that power leaves such kernels
    streamed = (read + op["written"]) / (clocks * k["linear.bytes_per_clock"])
    multiplied = matmul(each, gpu, k).compute_s * np.minimum(1.0, rows / _FEW) / (k["linear.rate"] * _narrow(op, gpu, k))
    corrected = either(gpu.ecc, k["linear.ecc"] / k["memory.ecc"], 1.0)  # what an engine loses by error correction, once
    return Cost(
        compute_s=longer(multiplied, capped, 2.0) / np.where(op["experts"] > 1, k["linear.experts"], 1.0),
        memory_s=longer(moved_s(each, gpu, k) / (k["linear.bandwidth"] * corrected), streamed, k["linear.overlap"]),
    )


def _narrow(op: Columns, gpu: Gpus, k: Constants) -> Array | float:
    """How much faster products are in software that adds up in fp16, and that multiplies packed weights in int8."""
    if not k["linear.narrow"]:
        return 1.0
    packed, in_16 = op["width"] < _BYTES_16, (op["dtype"] == _FP16) | (op["dtype"] == _BF16)
    result: Array = np.where(in_16, np.where(packed, np.maximum(gpu.sums16, gpu.bytes8), gpu.sums16), 1.0)
    return result


def held_columns(ops: Sequence[Signature], size: Sizes, choices: Choices) -> Mapping[str, Any]:
    """The columns of ops that say how their weights are held."""
    width = [DTYPE_BYTES[str(op.attrs["weights"])] for op in ops]
    return {"experts": 1.0, "chosen": 1.0, **size, "dtype": [engine_code(op, choices.tf32) for op in ops], "width": width}


def _flops(op: Signature, size: Sizes) -> Array:
    result: Array = 2 * size["tokens"] * size["n"] * size["k"]
    return result


def _least_flops(op: Columns) -> Array:
    result: Array = 2.0 * op["tokens"] * op["chosen"] * op["n"] * op["k"]
    return result


def _measured(op: Signature, size: Mapping[str, float]) -> Measured:
    return Measured((f"matmul.{op.dtype}", "matmul.fp32"), (1.0, size["tokens"], size["n"], size["k"]))


LINEAR = OpKind(
    name="linear",
    sizes=("tokens", "n", "k"),
    attrs=("weights",),
    model=KernelModel(name="linear", price=or_plain(linear), least_flops=_least_flops, reads_weights=True),
    columns=held_columns,
    flops=_flops,
    needed=lambda op: 1.0,
    measured=_measured,
    is_layer=True,
    is_product=True,
    reads_whole=True,
    fusion=Fusion.PRODUCT,
    split=Split.WHOLE,
)
