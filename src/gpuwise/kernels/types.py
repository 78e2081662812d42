"""The input and the result of a kernel model, and the properties that a kind of op can declare.

Everything is an array, with ops along one axis and GPUs along the other. A kernel model is a function `(op, gpu, k) -> Cost`.
`op` holds columns of shape (ops, 1), `gpu` columns of shape (1, gpus) and `k` the fitted constants, so every result has the shape
(ops, gpus). Nothing here depends on a particular model or batch size.

Each file in `ops/` defines one `OpKind`, and `registry.py` lists them. Code that needs to know something about a kind reads it
from its `OpKind`, so adding a kind requires no change elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, NamedTuple, Protocol

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
    "Fusion",
    "Gpus",
    "Group",
    "KernelModel",
    "Measured",
    "OpKind",
    "Ops",
    "Signature",
    "Sizes",
    "Split",
    "dtype_code",
    "engine_code",
    "half_of",
    "is_backward",
    "is_needless",
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
    # Packed weights including their scales, averaged over a block's matrices. `workload/language/weight_formats.py` describes
    # each format.
    "int4": 4.156 / 8,
    "nf4": 4.127 / 8,
    "nvfp4": 4.5 / 8,
    "mxfp4": 4.25 / 8,
    "q8_0": 8.5 / 8,
    "q6_k": 6.5625 / 8,
    "q5_k_m": 5.65 / 8,
    "q4_k_m": 4.80 / 8,
    "q4_k": 4.5 / 8,
    "q4_0": 4.5 / 8,
    "q3_k_m": 3.90 / 8,
    "q2_k": 2.95 / 8,
}
# Types that a matrix product or convolution can run in. Types not listed here (int64 indices) have no arithmetic rate.
DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp64", "fp4")
_CODES = {name: code for code, name in enumerate(DTYPES)}


def dtype_code(name: str) -> int:
    """Return the row of this type in `Gpus.peak`. Other types compute like fp32."""
    return _CODES.get(name, 0)


# Generations with measured GPUs: each has its own terms, shrunk towards the mean of all.
GENERATIONS = (
    *("maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell"),
    *("gcn", "vega", "rdna1", "rdna2", "rdna3", "rdna4", "cdna2", "cdna3"),
    *("alchemist", "battlemage", "ponte-vecchio", "apple-m1", "apple-m2", "apple-m3", "apple-m4"),
)

MAKERS = ("amd", "intel", "apple")  # other than NVIDIA, whose libraries the models describe


class Signature(Protocol):
    """The properties of an op, besides its sizes and bytes, that its kind can read."""

    @property
    def name(self) -> str: ...

    @property
    def dtype(self) -> str: ...

    @property
    def attrs(self) -> Mapping[str, AttrValue]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Choices made by the software: whether fp32 products may run as TF32, whether attention is one kernel, the image layout,
    whether a compiler may choose the layout, whether the libraries are too old for fast depthwise convolutions, and whether the
    step is training or inference (`mode`).
    """

    tf32: bool = False
    tf32_convolutions: bool = False
    fused_attention: bool = True
    nhwc: bool | None = None
    lays_out: bool = False
    old_depthwise: bool = False
    mode: str = "train"


def is_needless(op: Signature, choices: Choices) -> bool:
    """Return whether an op only copies images into channels-last, where they already are in this layout."""
    return bool(choices.nhwc) and op.attrs.get("reordered") == "image" and (op.name == "clone" or op.name.endswith(".copy"))


def engine_code(op: Signature, tf32: bool) -> float:
    """Return the row in `Gpus.peak` of the type that an op computes in, given whether fp32 products may run as TF32."""
    return float(dtype_code("tf32" if tf32 and op.dtype == "fp32" else op.dtype))


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Ops that share one model, called `kind` after it: their positions among all ops, and their columns."""

    kind: str
    rows: NDArray[np.intp]
    columns: Columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Ops:
    """Ops of many kinds, grouped by model."""

    count: int
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The properties of GPUs that kernel models use: columns of shape (1, gpus), in SI units.

    `peak` and `matrix` have one row for each of `DTYPES`: the FLOP/s at the rated clock of the engine that a library would use,
    and whether that is the matrix engine. `vector` is the rate of the vector lanes in fp32, `half` is the ratio of their fp16
    rate to it, and `converts` says whether fp16 is used only for storage and computed in fp32. `cache` is the size of L2 and any
    cache behind it, `lanes` is the number of fp32 lanes, `watts` is the power limit, `board` is the limit that the board is sold
    with, `node` is the year in which the architecture came out, and `process` is its process size in nanometres. `slower_hbm`
    says whether the memory controller reaches a smaller share of its HBM bandwidth than others, `mixed` says whether integer
    work takes slots of the fp32 lanes, and `ecc` says whether the GDDR memory corrects errors, which costs bandwidth.
    `products16` is the ratio of the rate of fp16 products to that of fp32 products if libraries lack good kernels for them,
    `sums16` is the speedup of fp16 products that also accumulate in fp16, `bytes8` is the same for int8 products at half their
    rate, and `generation` is the index in `GENERATIONS`.
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
    maker: Array
    generation: Array
    mixed: Array
    flash: Array
    soc: Array
    ecc: Array
    products16: Array
    sums16: Array
    bytes8: Array

    def take(self, which: Sequence[int] | slice) -> Gpus:
        """Return a subset of these GPUs."""
        picked = {field.name: getattr(self, field.name)[..., which] for field in fields(self) if field.name not in ("names",)}
        names = self.names[which] if isinstance(which, slice) else tuple(self.names[number] for number in which)
        return Gpus(names=names, **picked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds an op would need on each resource alone, and the number of kernels it launches."""

    compute_s: Array
    memory_s: Array
    launches: Array | float = 1.0


# ---------------------------------------------------------------- kinds of ops

Sizes = Mapping[str, Array]


class Fusion(Enum):
    """How a fusing compiler treats an op; `workload/compile/roles.py` derives the consequences.

    The most expensive kind of work in a fused kernel determines its model: the first of these that it contains, up to `LIST`. The
    rest are loops over elements, or are never fused.
    """

    PRODUCT = "a call into a library, in which loops over its result may run"
    NORM = "a reduction along rows, and a loop that writes every element; its forward pass may run again"
    ROWS = "the same, but its result is stored"
    LOSS = "a loop over rows and columns, with or without a sum at its end"
    REDUCTION = "a reduction of many values to fewer"
    WINDOW = "a loop that reads a window of values for each result"
    TABLE = "rows looked up in a table; its gradient is a scatter"
    INDEX = "values read by indices, or scattered to them"
    LIST = "a loop over each tensor of a list"
    LOOP = "a loop over elements that costs little to run again"
    COPY = "a loop over elements that only moves them"
    RANDOM = "a loop that generates numbers that cannot be generated again"
    LIBRARY = "a call into a library that is left alone"


class Split(Enum):
    """How tensor parallelism divides an op; `scale/split/tensor.py` derives the consequences."""

    MATRIX = "by columns or rows of its weight"
    HEADS = "by heads"
    TABLE = "by words of its table"
    LOSS = "by words; the result is a number that all ranks share"
    CAST = "in the same way as its input; a partial sum stays a partial sum"
    ADDS = "like CAST for an addition, like FOLLOWS otherwise"
    FOLLOWS = "in the same way as its input"
    WHOLE = "not at all"


class Measured(NamedTuple):
    """Which rows of `gpuwise bench` represent an op: the first of `kinds` that was measured near these sizes or, without sizes,
    rows that move the same number of bytes.
    """

    kinds: tuple[str, ...]
    sizes: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelModel:
    """How the times of ops are predicted, together with all other ops that use the same model.

    `least_flops` are the FLOPs that no kernel can avoid, at the rated peak; a model without them has a lower bound from bytes
    only. `reads_weights` says whether it is known how many weight bytes a call reads that no cache holds.
    """

    name: str
    price: Callable[[Columns, Gpus, Constants], Cost]
    least_flops: Callable[[Columns], Array] | None = None
    reads_weights: bool = False


def _nothing_sure(op: Signature) -> float:
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpKind:
    """A kind of op.

    `sizes` are the names of an op's sizes, in order. Bytes come from the tensors read and written, not from the sizes. `columns`
    returns the values that the model reads besides bytes, for several ops of this kind at several sizes: arrays of shape
    (points, ops), or one value per op. `flops` counts as `torch.utils.flop_counter` does, if that counts the op; `needed` is the
    share of these FLOPs that no library can avoid.

    `is_layer`: Python code runs around the kernel. `is_product`: selective recomputation keeps the result. `slow_backward`:
    autograd does more work on the host than for other ops. `reads_whole`: the op reads all of a weight, unlike a look-up.
    `attrs` are the attributes that an op must have, and `passes` are the values of its attribute `pass`.

    `divided` are the sizes that are divided among the ranks if the op follows its inputs; `tokens` is the size that counts
    tokens. Both default to the first size.
    """

    name: str
    sizes: tuple[str, ...]
    model: KernelModel
    columns: Callable[[Sequence[Signature], Sizes, Choices], Mapping[str, Any]]
    measured: Callable[[Signature, Mapping[str, float]], Measured]
    fusion: Fusion
    split: Split
    flops: Callable[[Signature, Sizes], Array] | None = None
    needed: Callable[[Signature], float] = _nothing_sure
    is_layer: bool = False
    is_product: bool = False
    slow_backward: bool = False
    reads_whole: bool = False
    attrs: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    divided: tuple[str, ...] = ()
    tokens: str = ""


def is_backward(op: Signature) -> bool:
    """Return whether an op belongs to a backward pass, according to its name or attribute."""
    return "backward" in op.name or op.attrs.get("pass") == "backward"


def half_of(op: Signature) -> str:
    """Return `forward` or `backward`, as in the measured rows."""
    return "backward" if is_backward(op) else "forward"
