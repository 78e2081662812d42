"""Recurrent layers as cuDNN runs them: all products with the inputs at once, then the time steps one after another.

A time step multiplies the state by the recurrent weights. If the weights fit in the GPU's registers and caches, they are read
once (persistent kernels); otherwise, every time step reads them again. Time steps depend on each other, so each costs at least
one synchronisation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpuwise.kernels.limits import either, moved_s, or_plain, peak_of, tiled_s, unit_bytes_per_s
from gpuwise.kernels.types import (
    DTYPE_BYTES,
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
    engine_code,
    half_of,
)

__all__ = ["RNN", "rnn"]

_GATES = {"lstm": 4, "gru": 3}  # others have one


def rnn(op: Columns, gpu: Gpus, k: Constants) -> Cost:
    """All layers and directions of one call. The backward pass has twice the products and the same number of time steps."""
    peak, matrix = peak_of(op, gpu, k)
    reached = peak * either(matrix, k["matmul.matrix"], k["matmul.vector"])
    gates, hidden, steps, batch = op["gates"], op["hidden"], op["steps"], op["batch"]
    later = np.maximum(op["layers"] - 1.0, 0.0)
    wide = gates * hidden * op["directions"]
    one = np.ones_like(hidden)
    inputs = tiled_s(one, steps * batch, wide, op["input"], op["dtype"], reached, gpu, k)
    inputs = inputs + later * tiled_s(one, steps * batch, wide, hidden * op["directions"], op["dtype"], reached, gpu, k)
    state = tiled_s(op["directions"], batch, gates * hidden, hidden, op["dtype"], reached, gpu, k)
    weights = gates * hidden * hidden * op["directions"] * op["width"]
    fetched = weights / unit_bytes_per_s(gpu, k)
    fetched = fetched + np.maximum(0.0, weights - gpu.cache) / gpu.bandwidth
    step = np.maximum(state, fetched) + k["rnn.step_s"]
    work = 1.0 + op["backward"]
    return Cost(
        compute_s=work * (inputs + op["layers"] * steps * step),
        memory_s=moved_s(op, gpu, k),
        launches=op["layers"] * work * 2.0,
    )


def _least_flops(op: Columns) -> Array:
    later = np.maximum(op["layers"] - 1.0, 0.0) * op["hidden"] * op["directions"]
    deep = op["input"] + later + op["layers"] * op["hidden"]
    result: Array = (
        2.0 * op["steps"] * op["batch"] * op["gates"] * op["hidden"] * op["directions"] * deep * (1.0 + op["backward"])
    )
    return result


def _columns(ops: Sequence[Signature], size: Sizes, choices: Choices) -> Mapping[str, Any]:
    return {
        **size,
        "dtype": [engine_code(op, choices.tf32) for op in ops],
        "gates": [_gates(op) for op in ops],
        "backward": [op.attrs["pass"] == "backward" for op in ops],
        "width": [DTYPE_BYTES[op.dtype] for op in ops],
    }


def _gates(op: Signature) -> int:
    return _GATES.get(str(op.attrs["cell"]), 1)


def _flops(op: Signature, size: Sizes) -> Array:
    """The gate products of every time step, layer and direction; the backward pass has twice as many."""
    hidden, directions, layers = size["hidden"], size["directions"], size["layers"]
    projection = float(op.attrs.get("projection", 0))  # type: ignore[arg-type]
    handed_on = projection or hidden  # from one time step to the next and from layer to layer
    first = size["input"] + handed_on
    later = handed_on * directions + handed_on
    per_step = 2 * directions * (_gates(op) * hidden * (first + (layers - 1) * later) + layers * hidden * projection)
    result: Array = size["steps"] * size["batch"] * per_step * (1 if op.attrs["pass"] == "forward" else 2)
    return result


def _measured(op: Signature, size: Mapping[str, float]) -> Measured:
    cell = str(op.attrs["cell"]).partition("_")[0]  # of plain cells, `bench` measures those with tanh
    layers = size["layers"] * size["directions"]  # each direction runs on its own
    return Measured((f"{cell}.{half_of(op)}",), (size["steps"], size["batch"], size["hidden"], layers))


RNN = OpKind(
    name="rnn",
    sizes=("steps", "batch", "input", "hidden", "layers", "directions"),
    attrs=("cell",),
    passes=("forward", "backward"),
    model=KernelModel(name="rnn", price=or_plain(rnn), least_flops=_least_flops),
    columns=_columns,
    flops=_flops,
    measured=_measured,
    is_layer=True,
    is_product=True,
    reads_whole=True,
    fusion=Fusion.LIBRARY,
    split=Split.WHOLE,
)
