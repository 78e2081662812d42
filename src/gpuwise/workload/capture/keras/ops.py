"""Runs keras.ops operations in a graph with torch. Shapes are known from the trace, so a reshape goes straight to its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812

from gpuwise.workload.capture.keras.conv import convolve, pool, transposed_convolve
from gpuwise.workload.capture.keras.leaf import DTYPES, as_tuple, relu
from gpuwise.workload.capture.keras.trace import Spec

__all__ = ["is_known", "run"]

Operation = Callable[..., Any]


def is_known(operation: Any) -> bool:
    """Return whether an operation is Keras' own and supported here."""
    return type(operation).__module__.startswith("keras.") and type(operation).__name__ in _OPS


def run(operation: Any, args: Sequence[Any], kwargs: dict[str, Any], specs: Sequence[Spec]) -> Any:
    """The operation on torch tensors; `specs` are the shapes its results have in Keras."""
    return _OPS[type(operation).__name__](operation, specs, *args, **kwargs)


def _elementwise(function: Callable[..., Any]) -> Operation:
    def apply(op: Any, specs: Any, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return apply


def _binary(function: Callable[..., Any]) -> Operation:
    """An operation on two tensors, or on a tensor and a number on either side."""
    numbers = function not in (torch.maximum, torch.minimum, torch.atan2, torch.logical_and, torch.logical_or, torch.logical_xor)

    def tensor(value: Any, like: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value
        return torch.as_tensor(value, dtype=like.dtype if like.is_floating_point() else None)

    def apply(op: Any, specs: Any, left: Any, right: Any) -> Any:
        if isinstance(left, torch.Tensor) and isinstance(right, (int, float)) and numbers:
            return function(left, right)
        return function(tensor(left, right), tensor(right, left))

    return apply


def _dims(op: Any, x: torch.Tensor, name: str = "axis") -> tuple[int, ...]:
    axis = getattr(op, name, None)
    if axis is None:
        return tuple(range(x.dim()))
    return (axis,) if isinstance(axis, int) else tuple(axis)


def _reduce(function: Callable[..., Any]) -> Operation:
    def apply(op: Any, specs: Any, x: torch.Tensor, **_: Any) -> Any:
        x = x if x.is_floating_point() or function in (torch.amax, torch.amin, torch.sum) else x.float()
        return function(x, _dims(op, x), getattr(op, "keepdims", False))

    return apply


def _prod(op: Any, specs: Any, x: torch.Tensor) -> Any:
    for dim in sorted((axis % x.dim() for axis in _dims(op, x)), reverse=True):
        x = x.prod(dim, getattr(op, "keepdims", False))
    return x


def _truth(function: Callable[..., Any]) -> Operation:
    def apply(op: Any, specs: Any, x: torch.Tensor) -> Any:
        for dim in sorted((axis % x.dim() for axis in _dims(op, x)), reverse=True):
            x = function(x, dim, getattr(op, "keepdims", False))
        return x

    return apply


def _spread(function: Callable[..., Any]) -> Operation:
    """The standard deviation and the variance, which Keras computes over the whole population."""

    def apply(op: Any, specs: Any, x: torch.Tensor) -> Any:
        return function(x, dim=_dims(op, x), correction=0, keepdim=bool(getattr(op, "keepdims", False)))

    return apply


def _shaped(op: Any, specs: Any, x: torch.Tensor, *_: Any, **__: Any) -> Any:
    return x.reshape(specs[0].shape)


def _cast(op: Any, specs: Any, x: torch.Tensor) -> Any:
    """A cast between float types follows the requested precision, not the model's own casts."""
    wanted = DTYPES.get(specs[0].dtype, torch.float32)
    return x if x.dtype == wanted or (x.is_floating_point() and wanted.is_floating_point) else x.to(wanted)


def _transpose(op: Any, specs: Any, x: torch.Tensor) -> Any:
    return x.permute(*(op.axes if op.axes is not None else reversed(range(x.dim()))))


def _split(op: Any, specs: Any, x: torch.Tensor) -> Any:
    return torch.split(x, [spec.shape[op.axis] for spec in specs], op.axis)


def _take(op: Any, specs: Any, x: torch.Tensor, indices: Any) -> Any:
    if not isinstance(indices, torch.Tensor):
        indices = torch.zeros(torch.Size(_shape_of(indices)), dtype=torch.int64)
    axis = op.axis if op.axis is not None else 0
    x = x.reshape(-1) if op.axis is None else x
    if axis == 0 and x.dim() == 2:
        return F.embedding(indices, x)
    return x.index_select(axis, indices.reshape(-1)).reshape(specs[0].shape)


def _shape_of(value: Any) -> tuple[int, ...]:
    return (len(value), *_shape_of(value[0])) if isinstance(value, (list, tuple)) and value else ()


def _get_item(op: Any, specs: Any, x: torch.Tensor, key: Any) -> Any:
    return x[tuple(key) if isinstance(key, (list, tuple)) else key]


def _pad(op: Any, specs: Any, x: torch.Tensor, constant_values: Any = None) -> Any:
    width = list(op.pad_width) * (x.dim() if len(op.pad_width) == 1 else 1)
    flat = [amount for pair in reversed(width) for amount in pair]
    mode = {"symmetric": "reflect", "edge": "replicate"}.get(op.mode, op.mode)
    return F.pad(x, flat) if mode == "constant" else F.pad(x, flat, mode=mode)


def _repeat(op: Any, specs: Any, x: torch.Tensor) -> Any:
    if not isinstance(op.repeats, int):
        return x.new_zeros(specs[0].shape)
    return x.repeat_interleave(op.repeats, op.axis)


def _one_hot(op: Any, specs: Any, x: torch.Tensor) -> Any:
    out = torch.zeros(specs[0].shape)
    return out.scatter(op.axis, x.long().unsqueeze(op.axis), 1.0)


def _moments(op: Any, specs: Any, x: torch.Tensor) -> Any:
    variance, mean = torch.var_mean(x, _dims(op, x, "axes"), correction=0, keepdim=bool(op.keepdims))
    return mean, variance


def _layer_norm(op: Any, specs: Any, x: torch.Tensor, gamma: Any = None, beta: Any = None, **given: Any) -> Any:
    rms = getattr(op, "rms_scaling", False) or type(op).__name__ == "RMSNorm"
    gamma = given.get("scale", gamma)
    axes = sorted(axis % x.dim() for axis in _dims(op, x))
    last = list(range(x.dim() - len(axes), x.dim()))
    moved = x.movedim(axes, last)
    shape = moved.shape[last[0] :]
    scale, shift = (None if part is None else part.reshape(shape) for part in (gamma, beta))
    y = F.rms_norm(moved, shape, scale) if rms else F.layer_norm(moved, shape, scale, shift)
    return y.movedim(last, axes)


def _batch_norm(op: Any, specs: Any, x: torch.Tensor, mean: Any, variance: Any, offset: Any = None, scale: Any = None) -> Any:
    moved = x.movedim(op.axis, 1)
    return F.batch_norm(moved, mean, variance, scale, offset, False, 0.0, op.epsilon).movedim(1, op.axis)


def _attention(
    op: Any, specs: Any, query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, scale: Any = None
) -> Any:
    q, k, v = (part.transpose(1, 2) for part in (query, key, value))
    extra = bias if bias is not None else mask
    groups = q.shape[1] != k.shape[1]
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=extra, is_causal=bool(op.is_causal) and extra is None, **({"enable_gqa": True} if groups else {})
    )
    return out.transpose(1, 2)


def _top_k(op: Any, specs: Any, x: torch.Tensor) -> Any:
    return torch.topk(x, op.k, sorted=op.sorted)


def _cross_entropy(op: Any, specs: Any, target: Any, output: Any) -> Any:
    if type(op).__name__ == "BinaryCrossentropy":
        run = F.binary_cross_entropy_with_logits if op.from_logits else F.binary_cross_entropy
        return run(output, target.to(output.dtype), reduction="none")
    scores = F.log_softmax(output, op.axis) if op.from_logits else torch.log(output.clamp(1e-7, 1 - 1e-7))
    if type(op).__name__ == "CategoricalCrossentropy":
        return -(target * scores).sum(op.axis)
    return F.nll_loss(scores.flatten(0, -2), target.long().flatten(), reduction="none").reshape(specs[0].shape)


# ---------------------------------------------------------------- convolutions and pools on weights of their own


def _spatial(op: Any, x: torch.Tensor) -> tuple[int, bool]:
    return x.dim() - 2, op.data_format in (None, "channels_last")


def _conv(op: Any, specs: Any, inputs: torch.Tensor, kernel: torch.Tensor) -> Any:
    rank, last = _spatial(op, inputs)
    depthwise = type(op).__name__ == "DepthwiseConv"
    channels = inputs.shape[-1 if last else 1]
    weight = kernel.flatten(-2).unsqueeze(0).movedim(-1, 0) if depthwise else kernel.permute(-1, -2, *range(rank))
    weight = weight.unsqueeze(2) if rank == 1 else weight
    groups = channels if depthwise else channels // kernel.shape[-2]
    stride, dilation = as_tuple(op.strides, rank), as_tuple(op.dilation_rate, rank)
    return convolve(inputs, weight, None, stride=stride, padding=op.padding, dilation=dilation, groups=groups, last=last)


def _conv_transpose(op: Any, specs: Any, inputs: torch.Tensor, kernel: torch.Tensor) -> Any:
    rank, last = _spatial(op, inputs)
    weight = kernel.permute(-1, -2, *range(rank))
    weight = weight.unsqueeze(2) if rank == 1 else weight
    out = specs[0].shape[1:-1] if last else specs[0].shape[2:]
    stride, dilation = as_tuple(op.strides, rank), as_tuple(op.dilation_rate, rank)
    return transposed_convolve(inputs, weight, None, stride=stride, dilation=dilation, last=last, out=out)


def _pool(op: Any, specs: Any, inputs: torch.Tensor) -> Any:
    rank, last = _spatial(op, inputs)
    size = as_tuple(op.pool_size, rank)
    stride = size if op.strides is None else as_tuple(op.strides, rank)
    return pool(inputs, "max" if type(op).__name__ == "MaxPool" else "average", size, stride, op.padding, last)


def _resize(op: Any, specs: Any, images: torch.Tensor) -> Any:
    last = op.data_format == "channels_last"
    x = images if images.dim() == 4 else images.unsqueeze(0)
    x = x.movedim(-1, 1) if last else x
    mode = op.interpolation if op.interpolation in ("nearest", "bilinear", "bicubic") else "bicubic"
    y = F.interpolate(x if x.is_floating_point() else x.float(), tuple(op.size), mode=mode)
    return (y.movedim(1, -1) if last else y).reshape(specs[0].shape)


_UNARY: dict[str, Callable[..., Any]] = {
    "Absolute": torch.abs,
    "Negative": torch.neg,
    "Exp": torch.exp,
    "Log": torch.log,
    "Log1p": torch.log1p,
    "Expm1": torch.expm1,
    "Log2": torch.log2,
    "Sqrt": torch.sqrt,
    "Rsqrt": torch.rsqrt,
    "Square": torch.square,
    "Reciprocal": torch.reciprocal,
    "Sin": torch.sin,
    "Cos": torch.cos,
    "Tanh": torch.tanh,
    "Erf": torch.erf,
    "Floor": torch.floor,
    "Ceil": torch.ceil,
    "Round": torch.round,
    "Sign": torch.sign,
    "Isnan": torch.isnan,
    "LogicalNot": torch.logical_not,
    "ZerosLike": lambda x, **_: torch.zeros_like(x),
    "OnesLike": lambda x, **_: torch.ones_like(x),
    "FullLike": lambda x, value, **_: torch.ones_like(x),
    "Relu": F.relu,
    "Relu6": F.relu6,
    "Sigmoid": torch.sigmoid,
    "Softplus": F.softplus,
    "Softsign": F.softsign,
    "Silu": F.silu,
    "Mish": F.mish,
    "LogSigmoid": F.logsigmoid,
    "LeakyRelu": F.leaky_relu,
    "HardSigmoid": F.hardsigmoid,
    "HardSilu": F.hardswish,
    "HardTanh": F.hardtanh,
    "Elu": F.elu,
    "Selu": F.selu,
    "Celu": F.celu,
    "Gelu": F.gelu,
    "StopGradient": torch.detach,
    "Identity": lambda x: x,
    "ConvertToTensor": lambda x: x,
    "Copy": torch.clone,
}
_BINARY: dict[str, Callable[..., Any]] = {
    "Add": torch.add,
    "Subtract": torch.sub,
    "Multiply": torch.mul,
    "Divide": torch.div,
    "TrueDivide": torch.div,
    "DivideNoNan": torch.div,
    "FloorDivide": torch.floor_divide,
    "Mod": torch.remainder,
    "Power": torch.pow,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
    "Arctan2": torch.atan2,
    "Equal": torch.eq,
    "NotEqual": torch.ne,
    "Greater": torch.gt,
    "GreaterEqual": torch.ge,
    "Less": torch.lt,
    "LessEqual": torch.le,
    "LogicalAnd": torch.logical_and,
    "LogicalOr": torch.logical_or,
    "LogicalXor": torch.logical_xor,
    "Matmul": torch.matmul,
}
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "Mean": torch.mean,
    "Sum": torch.sum,
    "Max": torch.amax,
    "Min": torch.amin,
    "Amax": torch.amax,
    "Amin": torch.amin,
    "Logsumexp": torch.logsumexp,
}


def _table() -> dict[str, Operation]:
    table: dict[str, Operation] = {name: _elementwise(function) for name, function in _UNARY.items()}
    table |= {name: _binary(function) for name, function in _BINARY.items()}
    table |= {name: _reduce(function) for name, function in _REDUCTIONS.items()}
    table |= dict.fromkeys(("Reshape", "ExpandDims", "Squeeze", "Ravel"), _shaped)
    table |= dict.fromkeys(("LayerNorm", "RMSNorm"), _layer_norm)
    table |= dict.fromkeys(("BinaryCrossentropy", "CategoricalCrossentropy", "SparseCategoricalCrossentropy"), _cross_entropy)
    table |= dict.fromkeys(("Conv", "DepthwiseConv"), _conv) | dict.fromkeys(("MaxPool", "AveragePool"), _pool)
    return table | _special()


def _special() -> dict[str, Operation]:
    """Operations with special arguments."""
    return {
        "Any": _truth(torch.any),
        "All": _truth(torch.all),
        "Prod": _prod,
        "Std": _spread(torch.std),
        "Var": _spread(torch.var),
        "Argmax": lambda op, specs, x: torch.argmax(x, op.axis, bool(op.keepdims)),
        "Argmin": lambda op, specs, x: torch.argmin(x, op.axis, bool(op.keepdims)),
        "Argsort": lambda op, specs, x: torch.argsort(x, dim=op.axis),
        "Sort": lambda op, specs, x: torch.sort(x, dim=op.axis)[0],
        "Cumsum": lambda op, specs, x, **_: torch.cumsum(x, op.axis),
        "Cumprod": lambda op, specs, x, **_: torch.cumprod(x, op.axis),
        "TopK": _top_k,
        "ReLU": lambda op, specs, x: relu(x, op.max_value, float(op.negative_slope), float(op.threshold)),
        "Softmax": lambda op, specs, x: F.softmax(x, op.axis),
        "LogSoftmax": lambda op, specs, x: F.log_softmax(x, op.axis),
        "Glu": lambda op, specs, x: F.glu(x, op.axis),
        "Clip": lambda op, specs, x: torch.clamp(x, -1.0, 1.0),
        "Cast": _cast,
        "SaturateCast": _cast,
        "Where": lambda op, specs, condition, left, right: torch.where(condition, left, right),
        "Einsum": lambda op, specs, *parts: torch.einsum(op.subscripts, *parts),
        "Tensordot": lambda op, specs, left, right: torch.tensordot(left, right, op.axes),
        "Dot": lambda op, specs, left, right: torch.matmul(left, right),
        "Outer": lambda op, specs, left, right: torch.outer(left.flatten(), right.flatten()),
        "Norm": lambda op, specs, x: torch.linalg.vector_norm(x, 2, _dims(op, x), bool(op.keepdims)),
        "Normalize": lambda op, specs, x: F.normalize(x, dim=op.axis),
        "Transpose": _transpose,
        "Swapaxes": lambda op, specs, x: x.transpose(op.axis1, op.axis2),
        "Moveaxis": lambda op, specs, x: x.movedim(tuple(op.source), tuple(op.destination)),
        "BroadcastTo": lambda op, specs, x: x.expand(specs[0].shape),
        "Concatenate": lambda op, specs, parts: torch.cat(list(parts), op.axis),
        "Stack": lambda op, specs, parts: torch.stack(list(parts), op.axis),
        "Unstack": lambda op, specs, x: torch.unbind(x, op.axis),
        "Split": _split,
        "Flip": lambda op, specs, x: torch.flip(x, _dims(op, x)),
        "Roll": lambda op, specs, x: torch.roll(x, op.shift, op.axis),
        "Tile": lambda op, specs, x: x.repeat(_times(x, specs[0])),
        "Repeat": _repeat,
        "Pad": _pad,
        "GetItem": _get_item,
        "Take": _take,
        "TakeAlongAxis": lambda op, specs, x, indices: torch.gather(x, op.axis, indices.long()),
        "Slice": lambda op, specs, x, *_: x[tuple(slice(0, size) for size in specs[0].shape)],
        "Tril": lambda op, specs, x: torch.tril(x, op.k),
        "Triu": lambda op, specs, x: torch.triu(x, op.k),
        "OneHot": _one_hot,
        "Moments": _moments,
        "BatchNorm": _batch_norm,
        "DotProductAttention": _attention,
        "ConvTranspose": _conv_transpose,
        "Resize": _resize,
    }


def _times(x: torch.Tensor, spec: Spec) -> tuple[int, ...]:
    """Return how often a tensor is repeated along each dimension to reach a shape."""
    have = (1,) * (len(spec.shape) - x.dim()) + tuple(x.shape)
    return tuple(want // size for want, size in zip(spec.shape, have, strict=True))


_OPS = _table()
