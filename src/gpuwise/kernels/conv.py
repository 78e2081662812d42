"""Convolutions: a matrix product over positions (implicit GEMM), or, with one channel a group, a memory-bound pass.

Forward, the gradient of the input and the gradient of the weights are three different products. 3×3 windows without stride may
run as Winograd, with fewer multiplications. In the usual layout (NCHW) the matrix engine needs its operands rearranged.
"""

from __future__ import annotations

import numpy as np

from gpuwise.kernels.limits import longer, moved_s, peak_of, powered
from gpuwise.kernels.matmul import tiled_s
from gpuwise.kernels.types import Array, Columns, Constants, Cost, Gpus, dtype_code

__all__ = ["conv"]

_FLOPS_PER_CLOCK = 512.0  # of one unit: the matrix engine of a GeForce card in fp16
_FP32, _TF32 = dtype_code("fp32"), dtype_code("tf32")
_PASSES = ("forward", "data", "weight")


def conv(op: Columns, gpu: Gpus, k: Constants) -> Cost:
    """A convolution in any pass and layout; `pass` is 0 forward, 1 data, 2 weight."""
    depthwise = op["depthwise"][:, 0] > 0
    costs = [
        (rows, model(_at(op, rows), gpu, k)) for rows, model in ((~depthwise, _dense), (depthwise, _depthwise)) if rows.any()
    ]
    if len(costs) == 1:
        return costs[0][1]
    joined = {name: np.empty((len(depthwise), len(gpu.names)), gpu.clock.dtype) for name in ("compute_s", "memory_s", "launches")}
    for rows, cost in costs:
        for name, values in joined.items():
            values[rows] = getattr(cost, name)
    return Cost(**joined)


def _at(op: Columns, rows: Array) -> Columns:
    return {name: column[rows] for name, column in op.items()}


def _dense(op: Columns, gpu: Gpus, k: Constants) -> Cost:
    groups, window = op["groups"], op["kernel"]
    wide = (groups > 1) & (op["dtype"] == _TF32)  # no faster than in fp32: ResNeXt on an A100
    peak, matrix = peak_of({**op, "dtype": np.where(wide, _FP32, op["dtype"])}, gpu, k)
    outputs, inputs = op["n"] * op["out_positions"], op["n"] * op["in_positions"]
    pad = np.where(matrix > 0, np.where(op["dtype"] <= 1, 4.0, 8.0), 1.0)  # channels of one operand of the matrix engine
    ins, outs = (np.ceil(op[name] / groups / pad) * pad for name in ("c_in", "c_out"))
    which = op["pass"]
    rows = _by_pass(which, outputs, inputs, outs)
    columns = _by_pass(which, outs, ins, ins * window)
    # A strided gradient of the input has as many products as the forward pass, spread over more positions.
    depth = _by_pass(which, ins * window, outs * window * outputs / np.maximum(inputs, 1.0), outputs)
    engine = np.where(matrix > 0, _constants(which, k, "matrix"), _constants(which, k, "vector"))
    grouped = np.where(groups > 1, k["conv.grouped"], 1.0)
    wider = np.maximum(1.0, peak / gpu.units / gpu.clock / _FLOPS_PER_CLOCK)
    engine = engine * np.where(matrix > 0, wider ** -k["conv.growth"], 1.0)  # the wider the engine, the less of it is fed
    reuse = 2.0 / (1.0 + 1.0 / np.maximum(window, 1.0))
    reached = peak * engine * grouped
    seconds = tiled_s(groups, rows, columns, depth, op["dtype"], reached, gpu, k, reuse)
    seconds = longer(seconds, 2.0 * outputs * op["c_in"] * op["c_out"] / groups * window / powered(gpu, k, reached, matrix))
    fewer = np.where(which < 2, k["conv.winograd"], k["conv.winograd_weight"])
    seconds = seconds / np.where(_is_winograd(op, matrix), fewer, 1.0)
    scattered = (groups > 1) & (op["nhwc"] > 0) & (which == 2)  # a group's channels lie apart
    seconds = np.where(scattered, seconds * k["conv.grouped_nhwc_weight"], seconds)
    odd = (window != 1) & (window != 9) & (op["c_in"] >= 8) & (matrix > 0)
    seconds = np.where(odd, seconds * k["conv.odd_window"], seconds)
    few = (op["c_in"] < 8) & (matrix > 0) & (op["nhwc"] == 0)
    seconds = np.where(few, seconds * k["conv.few_channels"], seconds)
    rearranged = np.where((matrix > 0) & (op["nhwc"] == 0), k["conv.rearranged"], 0.0)
    return Cost(
        compute_s=seconds,
        memory_s=moved_s(op, gpu, k, k["conv.bytes"] + rearranged),
        launches=1.0 + np.where(rearranged > 0, 1.0, 0.0),
    )


def _depthwise(op: Columns, gpu: Gpus, k: Constants) -> Cost:
    """One filter a channel: vector work on few values, bound by how often its bytes are read."""
    products = 2.0 * op["n"] * op["c_out"] * op["kernel"] * op["out_positions"]
    factor = np.where(op["nhwc"] > 0, k["depthwise.nhwc"], 1.0) * _constants(op["pass"], k, "depthwise", "depthwise")
    lanes = gpu.vector * np.where(op["dtype"] == dtype_code("fp16"), np.minimum(gpu.half, 1.0), 1.0)  # GP10x crawls in fp16
    reached = lanes * k["depthwise.vector"]
    seconds = longer(products / reached, products / powered(gpu, k, reached, 0.0))
    return Cost(compute_s=seconds, memory_s=moved_s(op, gpu, k, factor))


def _is_winograd(op: Columns, matrix: Array) -> Array:
    """3×3, stride 1, enough channels: where cuDNN's heuristics take it on the vector engine."""
    plain = (op["kernel"] == 9) & (op["strided"] == 0) & (op["groups"] == 1) & (op["c_in"] >= 32) & (op["c_out"] >= 32)
    result: Array = plain & (matrix == 0)
    return result


def _by_pass(which: Array, forward: Array, data: Array, weight: Array) -> Array:
    return np.where(which == 0, forward, np.where(which == 1, data, weight))


def _constants(which: Array, k: Constants, name: str, group: str = "conv") -> Array:
    values = [k[f"{group}.{name}.{step}"] if group == "conv" else k[f"{group}.{step}"] for step in _PASSES]
    return _by_pass(which, *(np.full_like(which, value) for value in values))
