"""Linear layers in a model that generates text, with few or many rows and weights that may be packed.

The efficiency of these kernels depends far more on the software than on the GPU, so `step/data/engines` has constants for each
engine.
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

_UNPACKED = 1000.0  # FLOPs per clock of a unit that unpacks weights: beyond that, the matrix engine takes over, using less energy
_BYTES_16 = 2.0
_FP16, _BF16 = dtype_code("fp16"), dtype_code("bf16")
_FEW = 8.0  # tokens: up to this number, kernels multiply one vector at a time, and their work is proportional to it


def linear(op: Columns, gpu: Gpus, k: Constants) -> Cost:
    """Weights stream from memory as fast as bandwidth and units allow. With many tokens, this is an ordinary matrix product.

    `tokens` × `chosen` rows meet `experts` matrices of n × k. An ordinary layer has one matrix, which every token uses. Of
    several matrices, only those chosen by some token are read: few for a few tokens, all of them for many. Tokens are assumed to
    choose independently and evenly.
    """
    missed = (1.0 - op["chosen"] / op["experts"]) ** op["tokens"]
    matrices = np.maximum(op["experts"] * (1.0 - missed), 1.0)
    rows = op["tokens"] * op["chosen"] / matrices
    read = op["read"] + np.where(op["experts"] > 1, matrices * op["n"] * op["k"] * op["width"], 0.0)
    each = {"batch": matrices, "m": rows, "n": op["n"], "k": op["k"], "dtype": op["dtype"], "aligned": np.ones_like(op["n"])}
    each |= {"read": read, "written": op["written"]}
    flops = 2.0 * op["tokens"] * op["chosen"] * op["n"] * op["k"]
    clocks = gpu.units * gpu.clock
    unpacking = clocks * _of_maker(gpu, k, "linear.{}")
    reading = np.where(op["width"] < _BYTES_16, unpacking, clocks)  # weights that are not packed need no unpacking
    rate = clocks * _of_maker(gpu, k, "linear.{}_rate") * k["linear.flops_per_clock"]  # without a newer engine's instructions
    busy = gpu.units * gpu.clock * min(_UNPACKED, k["linear.flops_per_clock"])
    capped = flops / (rate * np.minimum(1.0, powered(gpu, k, busy, 0.0) / busy))  # at the clock that power allows
    streamed = (read + op["written"]) / (reading * k["linear.bytes_per_clock"])
    multiplied = matmul(each, gpu, k).compute_s * np.minimum(1.0, rows / _FEW) / (k["linear.rate"] * _narrow(op, gpu, k))
    corrected = either(gpu.ecc, k["linear.ecc"] / k["memory.ecc"], 1.0)  # an engine's loss from error correction, counted once
    return Cost(
        compute_s=longer(multiplied, capped, 2.0) / np.where(op["experts"] > 1, k["linear.experts"], 1.0),
        memory_s=longer(moved_s(each, gpu, k) / (k["linear.bandwidth"] * corrected), streamed, k["linear.overlap"]),
    )


def _of_maker(gpu: Gpus, k: Constants, name: str) -> Array:
    """Return a constant for each GPU's maker (1 for NVIDIA). A maker without this constant uses its constant for reading."""
    each = [k.get(name.format(maker), k[f"linear.{maker}"]) for maker in MAKERS]
    result: Array = np.array([1.0, *each], dtype=gpu.clock.dtype)[gpu.maker.astype(np.intp)]
    return result


def _narrow(op: Columns, gpu: Gpus, k: Constants) -> Array | float:
    """Return the speedup of products in software that accumulates in fp16, and in software that multiplies packed weights in
    int8.
    """
    if not k["linear.narrow"]:
        return 1.0
    packed, in_16 = op["width"] < _BYTES_16, (op["dtype"] == _FP16) | (op["dtype"] == _BF16)
    result: Array = np.where(in_16, np.where(packed, np.maximum(gpu.sums16, gpu.bytes8), gpu.sums16), 1.0)
    return result


def held_columns(ops: Sequence[Signature], size: Sizes, choices: Choices) -> Mapping[str, Any]:
    """Return the columns that describe how the ops' weights are stored."""
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
