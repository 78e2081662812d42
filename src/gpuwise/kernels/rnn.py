"""Recurrent layers as cuDNN runs them: the products with the inputs at once, then the steps one after another.

A step multiplies the state with the recurrent weights. While these fit in the registers and caches of the GPU they are read once
(persistent kernels); else every step reads them anew. Steps wait for each other, so each costs at least a synchronisation.
"""

from __future__ import annotations

import numpy as np

from gpuwise.kernels.limits import either, moved_s, peak_of, unit_bytes_per_s
from gpuwise.kernels.matmul import tiled_s
from gpuwise.kernels.types import Columns, Constants, Cost, Gpus

__all__ = ["rnn"]


def rnn(op: Columns, gpu: Gpus, k: Constants) -> Cost:
    """All layers and directions of one call; the backward pass has twice the products and as many steps again."""
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
