"""What a kernel model is given and what it answers. Everything is arrays: ops along one axis, GPUs along the other.

A kernel model is a function `(op, gpu, k) -> Cost`. `op` holds columns of shape (ops, 1), `gpu` columns of shape (1, gpus) and
`k` the fitted constants, so that every result has the shape (ops, gpus). Nothing here knows a model or a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "DTYPES",
    "DTYPE_BYTES",
    "Array",
    "AttrValue",
    "Choices",
    "Columns",
    "Constants",
    "Cost",
    "Gpus",
    "Group",
    "Ops",
    "Signature",
    "dtype_code",
    "engine_code",
]

Array = NDArray[Any]
Columns = Mapping[str, Array]
Constants = Mapping[str, float]
AttrValue = int | float | str | bool | tuple[int, ...]

DTYPE_BYTES: Mapping[str, float] = {
    "fp64": 8,
    "fp32": 4,
    "fp16": 2,
    "bf16": 2,
    "fp8": 1,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
    "complex64": 8,
    "complex128": 16,
}
# Types a matrix product or convolution can run in. What is not listed (int64 indices) has no arithmetic rate.
DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp64", "fp4")
_CODES = {name: code for code, name in enumerate(DTYPES)}


def dtype_code(name: str) -> int:
    """The row of this type in `Gpus.peak`; other types compute as fp32 does."""
    return _CODES.get(name, 0)


class Signature(Protocol):
    """What kinds of ops know of an op beside its sizes and bytes."""

    @property
    def name(self) -> str: ...

    @property
    def dtype(self) -> str: ...

    @property
    def attrs(self) -> Mapping[str, AttrValue]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the software decides: whether fp32 products may run as TF32, whether attention is one kernel, the image layout,
    whether a compiler may choose that, and whether the step trains a model or only asks it (`mode`)."""

    tf32: bool = False
    tf32_convolutions: bool = False
    fused_attention: bool = True
    nhwc: bool | None = None
    lays_out: bool = False
    mode: str = "train"


def engine_code(op: Signature, tf32: bool) -> float:
    """The row in `Gpus.peak` of the type that an op computes in, where fp32 products may run as TF32 or not."""
    return float(dtype_code("tf32" if tf32 and op.dtype == "fp32" else op.dtype))


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Ops that one model prices, called `kind` after it: their places among all ops, and their columns."""

    kind: str
    rows: NDArray[np.intp]
    columns: Columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Ops:
    """Ops of many kinds, in groups of one model."""

    count: int
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """What kernel models know of GPUs: columns of shape (1, gpus), in SI units.

    `peak` and `matrix` have one row for each of `DTYPES`: FLOP/s at the rated clock of the engine a library would use, and
    whether that is the matrix engine. `vector` is the rate of the vector lanes in fp32,
    `half` how many times that they do in fp16, `converts` whether fp16 is only
    stored and computed in fp32. `cache` is L2 and what lies behind it; `lanes` are fp32 lanes, `watts` is
    the power limit, `board` the one it is sold with, `node` the year the architecture came out, `process` its nanometres,
    `slower_hbm` whether its controller reaches less of its HBM than others do, `mixed` whether integer work takes
    slots of its fp32 lanes.
    """

    names: tuple[str, ...]
    units: Array
    clock: Array
    bandwidth: Array
    cache: Array
    peak: Array
    matrix: Array
    vector: Array
    half: Array
    converts: Array
    lanes: Array
    watts: Array
    board: Array
    node: Array
    process: Array
    hbm: Array
    slower_hbm: Array
    amd: Array
    mixed: Array
    flash: Array
    desktop: Array

    def take(self, which: Sequence[int] | slice) -> Gpus:
        """Some of these GPUs."""
        picked = {field.name: getattr(self, field.name)[..., which] for field in fields(self) if field.name not in ("names",)}
        names = self.names[which] if isinstance(which, slice) else tuple(self.names[number] for number in which)
        return Gpus(names=names, **picked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds an op needs of each resource if it had it alone, and how many kernels it launches."""

    compute_s: Array
    memory_s: Array
    launches: Array | float = 1.0
