"""Reads the sizes of matrix products and convolutions from the shapes that the profiler recorded with the host's ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import msgspec
import numpy as np

from gpuwise.diagnose.scene import Scene
from gpuwise.trace.sized import CONVOLUTIONS, LINEAR, PRODUCTS
from gpuwise.trace.types import Events, Kind, Trace

__all__ = ["Product", "batch_of", "dims_of", "products", "settings_of", "type_of"]

_MOST_SHAPES = 20_000


@dataclass(frozen=True, slots=True)
class Product:
    """A (batched) product of m × k with k × n, or a convolution expressed as such a product."""

    op: str
    batch: int
    m: int
    n: int
    k: int
    dtype: str

    @property
    def flops(self) -> float:
        """Operations of the product."""
        return 2.0 * self.batch * self.m * self.n * self.k


def dims_of(shape: bytes) -> tuple[list[Any], list[Any]]:
    """Return the sizes and types of an op's inputs; empty if they are not as expected."""
    dims, _, rest = shape.partition(b"|")
    return _listed(dims), _listed(rest.partition(b"|")[0])


def settings_of(shape: bytes) -> list[Any]:
    """Return an op's arguments other than tensors, at their positions; nothing if the trace does not record them."""
    parts = shape.split(b"|", 2)
    return _listed(parts[2]) if len(parts) > 2 else []


def _listed(text: bytes) -> list[Any]:
    try:
        found = msgspec.json.decode(text) if text else []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def products(scene: Scene) -> Counter[Product]:
    """Return each distinct product of the steady steps and how often it ran, from the innermost ops that record it."""
    trace = scene.trace
    wanted = {name: trace.names.index(name) for name in (*PRODUCTS[:3], *CONVOLUTIONS[:2]) if name in trace.names}
    if not wanted or not trace.shapes:
        return Counter()
    begin, end = scene.steps.steady_window
    ops = _shaped_ops(trace, list(wanted.values()))
    ops = ops.where((ops.start_ns >= begin) & (ops.start_ns < end))
    found: Counter[Product] = Counter()
    for name, number in wanted.items():
        shapes, counts = np.unique(ops.shape[ops.name == number], return_counts=True)
        for shape, count in zip(shapes[:_MOST_SHAPES].tolist(), counts.tolist(), strict=False):
            for product in _product(name, trace.shapes[shape]):
                found[product] += count
    return found


def _product(name: str, shape: bytes) -> Iterator[Product]:
    dims, types = dims_of(shape)
    tensors = [
        size for size in dims if isinstance(size, list) and size and all(isinstance(entry, int) and entry > 0 for entry in size)
    ]
    kind = next((str(entry) for entry in types if entry), "float")
    dtype = type_of(kind)
    if name == "aten::addmm":
        tensors = [size for size in tensors if len(size) == 2][-2:]
    if name in ("aten::mm", "aten::addmm") and len(tensors) >= 2 and len(tensors[0]) == len(tensors[1]) == 2:
        (m, k), (_, n) = tensors[0], tensors[1]
        yield Product(name, 1, m, n, k, dtype)
    elif name == "aten::bmm" and len(tensors) >= 2 and len(tensors[0]) == len(tensors[1]) == 3:
        (batch, m, k), (_, _, n) = tensors[0], tensors[1]
        yield Product(name, batch, m, n, k, dtype)
    elif name in CONVOLUTIONS and len(tensors) >= 2 and len(tensors[0]) == len(tensors[1]) >= 3:
        image, weight = tensors[0], tensors[1]
        yield Product(name, 1, image[0] * prod(image[2:]), weight[0], weight[1] * prod(weight[2:]), dtype)


def type_of(name: str) -> str:
    """Return the type of a product from PyTorch's names for the types of its inputs."""
    word = name.lower()
    if "bfloat16" in word:
        return "bf16"
    if "half" in word:
        return "fp16"
    if "float8" in word:
        return "fp8"
    if "char" in word or "int8" in word:
        return "int8"
    return "fp64" if "double" in word else "fp32"


def batch_of(scene: Scene) -> int | None:
    """Return the samples per step: the most common first dimension of inputs to convolutions and linear layers; None without
    shapes.
    """
    trace = scene.trace
    found: Counter[int] = Counter()
    wanted = [trace.names.index(name) for name in (*CONVOLUTIONS, LINEAR, "aten::addmm") if name in trace.names]
    chosen = _shaped_ops(trace, wanted)
    for shape, count in zip(*np.unique(chosen.shape, return_counts=True), strict=True):
        dims, _ = dims_of(trace.shapes[int(shape)])
        first = next((size for size in dims if isinstance(size, list) and len(size) >= 2), None)
        if first and isinstance(first[0], int):
            found[first[0]] += int(count)
    return found.most_common(1)[0][0] if found else None


def _shaped_ops(trace: Trace, names: list[int]) -> Events:
    events = trace.events
    return events.where((events.shape >= 0) & np.isin(events.name, names) & (events.kind == Kind.OP))
