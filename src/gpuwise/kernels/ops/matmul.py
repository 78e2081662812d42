"""Matrix products: (batch) m × k times k × n."""

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
)

__all__ = ["MATMUL", "matmul"]

_FP16 = dtype_code("fp16")


def matmul(op: Columns, gpu: Gpus, k: Constants) -> Cost:
    """The result is computed in tiles, as fast as units, caches and power allow."""
    peak, matrix = peak_of(op, gpu, k)
    reached = peak * either(matrix, k["matmul.matrix"], k["matmul.vector"])
    reached = reached * either((op["dtype"] == _FP16).astype(peak.dtype), gpu.products16, 1.0)
    seconds = tiled_s(op["batch"], op["m"], op["n"], op["k"], op["dtype"], reached, gpu, k)
    seconds = longer(seconds, 2.0 * op["batch"] * op["m"] * op["n"] * op["k"] / powered(gpu, k, reached, matrix))
    seconds = np.maximum(seconds, _least_flops(op) / gpu.peak[op["dtype"][:, 0].astype(np.intp)])  # never above the rated value
    odd = np.where(op["aligned"] == 0, k["matmul.unaligned"], 1.0)
    return Cost(compute_s=seconds * either(matrix, odd, 1.0), memory_s=moved_s(op, gpu, k))


def _least_flops(op: Columns) -> Array:
    result: Array = 2.0 * op["batch"] * op["m"] * op["n"] * op["k"]
    return result


def _columns(ops: Sequence[Signature], size: Sizes, choices: Choices) -> Mapping[str, Any]:
    aligned = (size["n"] % 8 == 0) & (size["k"] % 8 == 0)
    return {**size, "dtype": [engine_code(op, choices.tf32) for op in ops], "aligned": aligned}


def _flops(op: Signature, size: Sizes) -> Array:
    result: Array = 2 * size["batch"] * size["m"] * size["n"] * size["k"]
    return result


def _measured(op: Signature, size: Mapping[str, float]) -> Measured:
    return Measured((f"matmul.{op.dtype}", "matmul.fp32"), (size["batch"], size["m"], size["n"], size["k"]))


MATMUL = OpKind(
    name="matmul",
    sizes=("batch", "m", "n", "k"),
    model=KernelModel(name="matmul", price=or_plain(matmul), least_flops=_least_flops, reads_weights=True),
    columns=_columns,
    flops=_flops,
    needed=lambda op: 1.0,
    measured=_measured,
    is_layer=True,
    is_product=True,
    reads_whole=True,
    fusion=Fusion.PRODUCT,
    split=Split.MATRIX,
    tokens="m",
)
