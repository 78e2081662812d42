"""PyTorch ops with their recorded sizes, in the form that the kernel models of `predict` need: their kind, sizes, and bytes
moved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from gpuwise.diagnose.shapes import dims_of, settings_of, type_of
from gpuwise.kernels.types import AttrValue
from gpuwise.trace.sized import BACKWARD, CAUSAL_AT, CONVOLUTION, COPY, LOOPS, NORMS, OLD_BACKWARD, PRODUCTS, SOFTMAX

__all__ = ["NAMES", "Sized", "Spatial", "outputs_of", "sized"]

NAMES = frozenset((*PRODUCTS, CONVOLUTION, *BACKWARD, *CAUSAL_AT, *NORMS, *SOFTMAX, *LOOPS, COPY))
_BYTES = {"double": 8, "long": 8, "long int": 8, "float": 4, "int": 4, "c10::bfloat16": 2, "c10::half": 2, "short": 2}
_COLOURS = 4
_NUMBER = re.compile(r"-?\d+")

Spatial = dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """One call of a kernel model: kind, sizes and settings; the bytes that it reads and writes. `least_read` leaves out what may
    be one tensor given twice, or a small one that stands for a large one."""

    kind: str
    name: str
    dtype: str
    sizes: Mapping[str, float]
    attrs: Mapping[str, AttrValue]
    read: float
    written: float
    repeated: float = 0.0

    @property
    def least_read(self) -> float:
        return self.read - self.repeated


def outputs_of(shapes: Mapping[str, list[bytes]]) -> Spatial:
    """Return the result sizes of convolutions by the sizes of image and weight, as recorded with their backward passes."""
    found: Spatial = {}
    for name in BACKWARD:
        for shape in shapes.get(name, ()):
            tensors = _tensors(dims_of(shape)[0])
            if len(tensors) >= 3:
                result, image = (tensors[1], tensors[0]) if name in OLD_BACKWARD else (tensors[0], tensors[1])
                found[tuple(image), tuple(tensors[2])] = tuple(result[2:])
    return found


def sized(name: str, shape: bytes, outputs: Spatial) -> tuple[Sized, ...]:
    """Return what one op requires of the device, as one call or several; nothing if its sizes are not fully recorded."""
    dims, types = dims_of(shape)
    tensors, kinds = _tensors(dims), [str(kind) for kind, size in zip(types, dims, strict=False) if _is_tensor(size)]
    if not tensors or len(kinds) != len(tensors) or (name == COPY and len(tensors) < 2):
        return ()
    if name in PRODUCTS:
        return _product(name, tensors, kinds)
    if name == CONVOLUTION:
        place = _result(tensors, settings_of(shape), outputs)
        return _convolution(name, tensors[0], tensors[1], place, kinds[0], ("forward",)) if place else ()
    if name in BACKWARD and len(tensors) >= 3:
        result, image = (tensors[1], tensors[0]) if name in OLD_BACKWARD else (tensors[0], tensors[1])
        wanted = _asked(settings_of(shape), image[1])
        return _convolution(name, image, tensors[2], tuple(result[2:]), kinds[0], wanted)
    if name in CAUSAL_AT:
        return _attention(name, tensors, kinds, settings_of(shape))
    return _moving(name, tensors, kinds)


def _is_tensor(size: Any) -> bool:
    return isinstance(size, list) and bool(size) and all(isinstance(entry, int) and entry > 0 for entry in size)


def _tensors(dims: list[Any]) -> list[list[int]]:
    return [size for size in dims if _is_tensor(size)]


def _width(kind: str) -> float:
    return float(_BYTES.get(kind.lower(), 1))


def _product(name: str, tensors: list[list[int]], kinds: list[str]) -> tuple[Sized, ...]:
    left, right = tensors[-2:] if len(tensors) >= 2 else ([], [])
    rank = 2 if name in ("aten::mm", "aten::addmm") else 3
    if len(left) != rank or len(right) != rank or left[-1] != right[-2]:
        return ()
    batch, m, k, n = (left[0] if rank == 3 else 1), left[-2], left[-1], right[-1]
    width = _width(kinds[-1])
    sizes = {"batch": float(batch), "m": float(m), "n": float(n), "k": float(k)}
    read, written = width * batch * k * (m + n), width * batch * m * n
    return (Sized(kind="matmul", name=name, dtype=type_of(kinds[-1]), sizes=sizes, attrs={}, read=read, written=written),)


def _numbers(text: Any) -> list[int]:
    return [int(found) for found in _NUMBER.findall(str(text))]


def _result(tensors: list[list[int]], settings: list[Any], outputs: Spatial) -> tuple[int, ...]:
    """Return the spatial sizes of a convolution's result; nothing if neither its settings nor its backward pass show them."""
    if len(tensors) < 2 or len(tensors[0]) != len(tensors[1]):
        return ()
    image, weight = tensors[:2]
    known = outputs.get((tuple(image), tuple(weight)))
    if known or len(settings) < 7:
        return known or ()
    if str(settings[6]).lower() != "false":  # a transposed convolution, whose weight has another layout
        return ()
    strides, pads, dilations = (_numbers(settings[place]) for place in (3, 4, 5))
    if not strides or not pads or not dilations:
        return ()

    def at(values: list[int], place: int) -> int:
        return values[place] if place < len(values) else values[-1]

    return tuple(
        (size + 2 * at(pads, place) - at(dilations, place) * (window - 1) - 1) // max(at(strides, place), 1) + 1
        for place, (size, window) in enumerate(zip(image[2:], weight[2:], strict=True))
    )


def _asked(settings: list[Any], channels: int) -> tuple[str, ...]:
    """Return which gradients a backward pass computes; both if the trace does not say, but never that of the input images."""
    flags = re.findall(r"true|false", str(settings[-1]).lower()) if settings else []
    wanted = [name for name, flag in zip(("data", "weight"), flags, strict=False) if flag == "true"]
    return tuple(wanted) if flags else ("data", "weight") if channels > _COLOURS else ("weight",)


def _convolution(
    name: str, image: list[int], weight: list[int], result: tuple[int, ...], kind: str, passes: tuple[str, ...]
) -> tuple[Sized, ...]:
    if len(image) != len(weight) or image[1] % weight[1] or not all(size > 0 for size in result):
        return ()
    groups, width = image[1] // weight[1], _width(kind)
    sizes = {
        "n": float(image[0]),
        "c_in": float(image[1]),
        "c_out": float(weight[0]),
        "kernel": float(prod(weight[2:])),
        "out_positions": float(prod(result)),
        "in_positions": float(prod(image[2:])),
    }
    strided = prod(result) * 2 <= prod(image[2:])
    attrs: dict[str, AttrValue] = {"groups": groups, "stride": (2, 2) if strided else (1, 1), "layout": "nchw"}
    images, weights, results = float(prod(image)), float(prod(weight)), float(image[0] * weight[0] * prod(result))
    moved = {"forward": (images + weights, results), "data": (results + weights, images), "weight": (results + images, weights)}
    return tuple(
        Sized(
            kind="conv",
            name=name,
            dtype=type_of(kind),
            sizes=sizes,
            attrs={**attrs, "pass": step},
            read=width * moved[step][0],
            written=width * moved[step][1],
        )
        for step in passes
    )


def _attention(name: str, tensors: list[list[int]], kinds: list[str], settings: list[Any]) -> tuple[Sized, ...]:
    if len(tensors) < 3 or any(len(size) != 4 for size in tensors[:3]):
        return ()
    query, key, value = tensors[:3]
    by_token = name == "aten::_flash_attention_forward"  # its tensors have tokens before heads
    heads, tokens = (2, 1) if by_token else (1, 2)
    place = CAUSAL_AT[name]
    causal = len(settings) > place and str(settings[place]).lower() == "true"
    sizes = {
        "batch": float(query[0]),
        "heads": float(query[heads]),
        "kv_heads": float(key[heads]),
        "q_len": float(query[tokens]),
        "kv_len": float(key[tokens]),
        "head_dim": float(query[3]),
        "value_dim": float(value[3]),
    }
    width = _width(kinds[0])
    read = width * (prod(query) + prod(key) + prod(value))
    attrs: dict[str, AttrValue] = {"pass": "forward", "causal": causal}
    dtype, written = type_of(kinds[0]), width * prod(query)
    return (Sized(kind="attention", name=name, dtype=dtype, sizes=sizes, attrs=attrs, read=read, written=written),)


def _moving(name: str, tensors: list[list[int]], kinds: list[str]) -> tuple[Sized, ...]:
    """Describe an op whose time depends on the bytes it moves: it reads its inputs and writes a result as large as the largest
    one.
    """
    largest = max(tensors, key=prod)
    elements = float(prod(largest))
    bytes_each = [_width(kind) * prod(size) for size, kind in zip(tensors, kinds, strict=True)]
    read, written = sum(bytes_each), elements * _width(kinds[tensors.index(largest)])
    kind, sizes, repeated = "elementwise", {"elements": elements}, read - max(bytes_each)
    if name == COPY:
        kind, read, written, repeated = "copy", sum(bytes_each[1:2]), bytes_each[0], 0.0
    elif name in NORMS or name in SOFTMAX:
        columns = float(largest[1] if "batch_norm" in name and len(largest) > 1 else largest[-1])
        kind, sizes = ("norm" if name in NORMS else "softmax"), {"rows": elements / columns, "columns": columns}
    dtype = type_of(kinds[0])
    return (Sized(kind=kind, name=name, dtype=dtype, sizes=sizes, attrs={}, read=read, written=written, repeated=repeated),)
