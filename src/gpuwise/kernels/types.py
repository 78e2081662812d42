"""What a kernel model is given, what it answers, and what there is to say of a kind of op.

Everything is arrays: ops along one axis, GPUs along the other. A kernel model is a function `(op, gpu, k) -> Cost`. `op` holds
columns of shape (ops, 1), `gpu` columns of shape (1, gpus) and `k` the fitted constants, so that every result has the shape
(ops, gpus). Nothing here knows a model or a batch.

Each file of `ops/` fills in one `OpKind`; `registry.py` lists them. Whatever asks what kind an op is finds the answer here: no
other file needs to know the names of kinds to treat a new one right.
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
    # Packed weights with their scales, in the mean of a block's matrices; `workload/language/formats.py` says what each is.
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
# Types a matrix product or convolution can run in. What is not listed (int64 indices) has no arithmetic rate.
DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp64", "fp4")
_CODES = {name: code for code, name in enumerate(DTYPES)}


def dtype_code(name: str) -> int:
    """The row of this type in `Gpus.peak`; other types compute as fp32 does."""
    return _CODES.get(name, 0)


# Generations whose GPUs were measured: each has terms of its own, drawn to the mean of all.
GENERATIONS = (
    *("maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell"),
    *("gcn", "vega", "rdna1", "rdna2", "rdna3", "rdna4", "cdna2", "cdna3"),
    *("alchemist", "battlemage", "ponte-vecchio", "apple-m1", "apple-m2", "apple-m3", "apple-m4"),
)

MAKERS = ("amd", "intel", "apple")  # beside NVIDIA, whose libraries the models describe


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
    slots of its fp32 lanes, `ecc` whether its GDDR corrects errors, which costs bandwidth,
    `products16` what products in fp16 reach of the rate in fp32 where libraries have no good kernels for them, `sums16` how many
    times as fast products in fp16 are that also add up in fp16, `bytes8` the same for products in int8 at half their rate, and
    `generation` the place of its generation among `GENERATIONS`.
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
    desktop: Array
    ecc: Array
    products16: Array
    sums16: Array
    bytes8: Array

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


# ---------------------------------------------------------------- kinds of ops

Sizes = Mapping[str, Array]


class Fusion(Enum):
    """What an op is to a fusing compiler; `workload/compile/roles.py` says what follows from it.

    In a fused kernel the hardest work sets the price: the first of these that is in it, as far as `LIST`. What comes after is a
    loop over elements, or is never fused.
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
    """How tensor parallelism divides an op; `scale/split/tensor.py` says what follows from it."""

    MATRIX = "by columns or rows of its weight"
    HEADS = "by heads"
    TABLE = "by words of its table"
    LOSS = "by words; the result is a number that all ranks share"
    CAST = "in the same way as its input; a partial sum stays a partial sum"
    ADDS = "like CAST for an addition, like FOLLOWS otherwise"
    FOLLOWS = "in the same way as its input"
    WHOLE = "not at all"


class Measured(NamedTuple):
    """Which rows of `gpuwise bench` stand for an op: the first of `kinds` that were measured, near these sizes; without sizes,
    those that move as many bytes."""

    kinds: tuple[str, ...]
    sizes: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelModel:
    """How ops are priced, together with all others of the same model.

    `least_flops` are those that no kernel does without, at the rated peak; of a model without them only bytes are claimed.
    `reads_weights`: what a call reads of weights that no cache holds is known.
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

    `sizes` name what the sizes of an op mean, in order; bytes come from the tensors read and written, not from the sizes.
    `columns` are what the model reads beside bytes, for several ops of this kind at several sizes: arrays of shape (points, ops),
    or one value for each op. `flops` counts as `torch.utils.flop_counter` does where it does; `needed` is the share of them that
    no library saves.

    A layer has Python around its kernel (`is_layer`). The result of a product is kept where recomputation is selective
    (`is_product`). `slow_backward`: autograd does more on the host for it than for others. `reads_whole`: it reads all of a
    weight, which a look-up does not. `attrs` are those that an op must say, `passes` the values of its attribute `pass`.

    `divided` are the sizes that a rank has a part of where the op follows its inputs; `tokens` is the size that counts tokens.
    Both are the first if nothing is said.
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
    """Whether an op, by its name or attribute, belongs to a backward pass."""
    return "backward" in op.name or op.attrs.get("pass") == "backward"


def half_of(op: Signature) -> str:
    """`forward` or `backward`, as measured rows are called."""
    return "backward" if is_backward(op) else "forward"
