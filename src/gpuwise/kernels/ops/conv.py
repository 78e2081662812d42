"""Convolutions: a matrix product over positions (implicit GEMM) or, with one channel per group, a memory-bound pass.

The forward pass, the gradient of the input and the gradient of the weights are three different products. 3×3 windows with stride
1 may run as Winograd, with fewer multiplications. In the default layout (NCHW), the matrix engine needs its operands rearranged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpuwise.kernels.limits import either, longer, moved_s, peak_of, powered, tiled_s
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

__all__ = ["CONV", "conv"]

_FLOPS_PER_CLOCK = 512.0  # the rate of one unit: a GeForce matrix engine in fp16
_FP32, _TF32, _FP16 = (dtype_code(name) for name in ("fp32", "tf32", "fp16"))
_PASSES = ("forward", "data", "weight")
_FEW = 8  # channels in one 16-bit operand of the matrix engine
_FAST_GROUPS = (4.0, 8.0, 16.0, 32.0)  # channels in a group that libraries have fast channels-last gradients for
_WINDOW = 9.0  # 3 x 3, the usual one
_CUDNN_WINDOWS = (1.0, 9.0, 25.0)  # depthwise, in the default layout
_SAVED = 4.0  # multiplications of F(4×4, 3×3) relative to the direct sum: Lavin and Gray 2015; other windows may run by FFT


def conv(op: Columns, gpu: Gpus, k: Constants) -> Cost:
    """A convolution in any pass and layout; `pass` is 0 for forward, 1 for the data gradient, 2 for the weight gradient."""
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
    """Use TF32, if allowed, when it is faster; it has no kernels for groups (ResNeXt on an A100). With few channels, a matrix
    engine is mostly empty, so these run on the vector lanes when those are faster.
    """
    may = op["dtype"] == _TF32
    choice = may | (op["c_in"] < _FEW)
    own = _on_its_engine(op, gpu, k)
    if not choice.any():
        return own
    plain = _on_its_engine({**op, "dtype": np.where(choice, _FP32, op["dtype"])}, gpu, k)
    slower = np.maximum(own.compute_s, own.memory_s)  # may have to be rearranged first
    better = (np.maximum(plain.compute_s, plain.memory_s) < slower) | (may & (op["groups"] > 1))
    return Cost(
        compute_s=np.where(better, plain.compute_s, own.compute_s),
        memory_s=np.where(better, plain.memory_s, own.memory_s),
        launches=np.where(better, plain.launches, own.launches),
    )


def _on_its_engine(op: Columns, gpu: Gpus, k: Constants) -> Cost:
    groups, window = op["groups"], op["kernel"]
    peak, matrix = peak_of(op, gpu, k)
    outputs, inputs = op["n"] * op["out_positions"], op["n"] * op["in_positions"]
    fewest = 8.0 - 4.0 * (op["dtype"] <= _TF32).astype(matrix.dtype)  # channels in one operand of the matrix engine
    pad = either(matrix, fewest, 1.0)
    ins, outs = (np.ceil(op[name] / groups / pad) * pad for name in ("c_in", "c_out"))
    which = op["pass"]
    rows = _by_pass(which, outputs, inputs, outs)
    columns = _by_pass(which, outs, ins, ins * window)
    # A strided gradient of the input has as many products as the forward pass, spread over more positions.
    depth = _by_pass(which, ins * window, outs * window * outputs / np.maximum(inputs, 1.0), outputs)
    wider = np.maximum(1.0, peak / gpu.units / gpu.clock / _FLOPS_PER_CLOCK)  # wider engines are harder to keep fed
    fed = wider ** -k["conv.growth"] * np.where(op["nhwc"] > 0, k["conv.nhwc"], 1.0)
    engine = either(matrix, _constants(which, k, "matrix") * fed, _constants(which, k, "vector"))
    reached = peak * engine * np.where(groups > 1, _in_groups(op, k), 1.0) * np.where(op["dtype"] == _TF32, k["conv.tf32"], 1.0)
    reuse = 2.0 / (1.0 + 1.0 / np.maximum(window, 1.0))
    seconds = tiled_s(groups, rows, columns, depth, op["dtype"], reached, gpu, k, reuse)
    seconds = longer(seconds, 2.0 * outputs * op["c_in"] * op["c_out"] / groups * window / powered(gpu, k, reached, matrix))
    in_nchw = (op["nhwc"] == 0) * matrix
    rearranged = np.where(window > 1, k["conv.rearranged"], k["conv.rearranged_1x1"])  # 1x1 is a product in either layout
    return Cost(
        compute_s=seconds * _slower(op, matrix, k),
        memory_s=moved_s(op, gpu, k, k["conv.bytes"] + in_nchw * rearranged),
        launches=1.0 + in_nchw,
    )


def _in_groups(op: Columns, k: Constants) -> Array:
    """Return the share of the engine's speed that groups of channels reach: nearly all of it if they are wide. In channels-last,
    libraries have fast kernels for groups of 4, 8, 16, ... channels, and slow ones for others.
    """
    width = op["c_in"] / op["groups"]
    reached = k["conv.grouped"] ** (1.0 / (1.0 + width / k["conv.group_width"]))
    last = np.where(np.log2(width) % 1 == 0, k["conv.grouped_nhwc_even"], k["conv.grouped_nhwc_odd"])
    weight = np.where(op["pass"] == 2, k["conv.grouped_weight"], 1.0)
    return reached * weight * np.where((op["nhwc"] > 0) & (op["pass"] < 2), last, 1.0)


def _slower(op: Columns, matrix: Array, k: Constants) -> Array:
    """Return the time multiplier for convolutions that libraries handle less well or, with Winograd, better."""
    window, which = op["kernel"], op["pass"]
    fewer = np.where(which < 2, k["conv.winograd"], k["conv.winograd_weight"])
    on_lanes = np.where(_is_winograd(op), 1.0 / fewer, 1.0)
    scattered = (op["groups"] > 1) & (op["nhwc"] > 0) & (which == 2)  # a group's channels are not contiguous
    scattered = scattered & ~np.isin(op["c_in"] / op["groups"], _FAST_GROUPS)
    odd = np.where((window != 1) & (window != 9) & (op["c_in"] >= _FEW), k["conv.odd_window"], 1.0)
    few = np.where(op["nhwc"] > 0, k["conv.few_channels_nhwc"], k["conv.few_channels"])
    few = np.where(op["c_in"] < _FEW, few, 1.0)
    return either(matrix, odd * few, on_lanes) * np.where(scattered, k["conv.grouped_nhwc_weight"], 1.0)


def _depthwise(op: Columns, gpu: Gpus, k: Constants) -> Cost:
    """One filter per channel: vector work on few values, limited by how often its bytes are read."""
    products = 2.0 * op["n"] * op["c_out"] * op["kernel"] * op["out_positions"]
    factor = np.where(op["nhwc"] > 0, k["depthwise.nhwc"], 1.0) * _constants(op["pass"], k, "depthwise", "depthwise")
    factor = factor * np.where(op["old"] > 0, k["depthwise.old"], 1.0) * np.where(gpu.maker > 0, k["depthwise.others"], 1.0)
    lanes = gpu.vector * either(op["dtype"] == _FP16, np.minimum(gpu.half, 1.0), 1.0)  # fp16 is very slow on GP10x
    large = np.maximum(op["kernel"] / _WINDOW, 1.0)  # large windows reuse little of what a unit holds
    reached = lanes * k["depthwise.vector"] * large ** -k["depthwise.window"]
    reached = np.where(_is_plain(op), lanes * k["depthwise.plain"], reached)
    seconds = longer(products / reached, products / powered(gpu, k, reached, 0.0))
    return Cost(compute_s=seconds, memory_s=moved_s(op, gpu, k, factor))


def _is_plain(op: Columns) -> Array:
    """In fp16 and the default layout, PyTorch uses cuDNN's depthwise kernels only for windows of 1, 3 and 5
    (`check_cudnn_depthwise_workload_with_filter` in its `Convolution.cpp`), and its own plain loop for all others.
    """
    result: Array = (op["nhwc"] == 0) & (op["dtype"] == _FP16) & ~np.isin(op["kernel"], _CUDNN_WINDOWS)
    return result


def _is_winograd(op: Columns) -> Array:
    """3×3, stride 1, enough channels: cases where cuDNN's heuristics choose Winograd on the vector engine."""
    result: Array = (op["kernel"] == 9) & (op["strided"] == 0) & (op["groups"] == 1) & (op["c_in"] >= 32) & (op["c_out"] >= 32)
    return result


def _by_pass(which: Array, forward: Array, data: Array, weight: Array) -> Array:
    result: Array = (which == 0) * forward + (which == 1) * data + (which == 2) * weight
    return result


def _constants(which: Array, k: Constants, name: str, group: str = "conv") -> Array:
    values = [k[f"{group}.{name}.{step}"] if group == "conv" else k[f"{group}.{step}"] for step in _PASSES]
    return _by_pass(which, *(np.full_like(which, value) for value in values))


def _least_flops(op: Columns) -> Array:
    """Overlapping windows may need fewer products. There is no bound for one channel per group, which uses the vector lanes."""
    flops = 2.0 * op["n"] * op["out_positions"] * op["c_in"] * op["c_out"] / op["groups"] * op["kernel"]
    overlaps = (op["kernel"] > 1) & (op["strided"] == 0)
    result: Array = np.where(op["depthwise"] > 0, 0.0, flops / np.where(overlaps, _SAVED, 1.0))
    return result


def _columns(ops: Sequence[Signature], size: Sizes, choices: Choices) -> Mapping[str, Any]:
    groups = np.array([op.attrs["groups"] for op in ops], dtype=np.float64)
    tf32 = choices.tf32 or choices.tf32_convolutions
    return {
        **size,
        "dtype": [engine_code(op, tf32) for op in ops],
        "groups": groups,
        "pass": [_PASSES.index(str(op.attrs["pass"])) for op in ops],
        "strided": [_is_strided(op) for op in ops],
        "nhwc": [op.attrs["layout"] == "nhwc" or bool(choices.nhwc) for op in ops],
        "depthwise": (groups > 1) & (groups >= size["c_in"]),
        "old": float(choices.old_depthwise),
    }


def _is_strided(op: Signature) -> bool:
    stride = op.attrs["stride"]
    return isinstance(stride, tuple) and any(step != 1 for step in stride)


def _flops(op: Signature, size: Sizes) -> Array:
    groups = float(op.attrs["groups"])  # type: ignore[arg-type]
    result: Array = 2 * size["n"] * size["c_in"] * size["c_out"] / groups * size["kernel"] * size["out_positions"]
    return result


def _measured(op: Signature, size: Mapping[str, float]) -> Measured:
    depthwise = int(op.attrs["groups"]) > 1 and int(op.attrs["groups"]) >= size["c_in"]  # type: ignore[arg-type]
    stride = op.attrs["stride"]
    strided = isinstance(stride, tuple) and max(stride) > 1
    if depthwise:  # older profiles have no strided ones
        names = ("depthwise_strided", "depthwise") if strided else ("depthwise",)
    else:
        names = ("strided",) if strided else ("conv",)
    inputs = 1.0 if depthwise else size["c_in"]
    return Measured(
        tuple(f"{name}.{op.attrs['pass']}" for name in names),
        (size["n"], inputs, size["c_out"], size["kernel"], size["out_positions"]),
    )


CONV = OpKind(
    name="conv",
    sizes=("n", "c_in", "c_out", "kernel", "out_positions", "in_positions"),
    attrs=("groups", "stride", "layout"),
    passes=_PASSES,
    # The model chooses TF32 itself, because groups cannot use it.
    model=KernelModel(name="conv", price=conv, least_flops=_least_flops, reads_weights=True),
    columns=_columns,
    flops=_flops,
    measured=_measured,
    is_layer=True,
    is_product=True,
    slow_backward=True,
    reads_whole=True,
    fusion=Fusion.PRODUCT,
    split=Split.WHOLE,
)
