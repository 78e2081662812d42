"""What there is to say of a kind of op. Each file of `ops/` fills in one `OpKind`; `registry.py` lists them.

Whatever asks what kind an op is finds the answer here: no other file needs to know the names of kinds to treat a new one right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from gpuwise.kernels.types import Array, Choices, Columns, Constants, Cost, Gpus, Signature

__all__ = ["Fusion", "KernelModel", "Measured", "OpKind", "Sizes", "Split", "half_of", "is_backward"]

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
    RANDOM = "a loop that makes numbers which cannot be made again"
    LIBRARY = "a call into a library that is left alone"


class Split(Enum):
    """How tensor parallelism divides an op; `scale/split/tensor.py` says what follows from it."""

    MATRIX = "by columns or rows of its weight"
    HEADS = "by heads"
    TABLE = "by words of its table"
    LOSS = "by words, to a number that all ranks share"
    CAST = "as what it copies, and a sum that is still to be added up stays one"
    ADDS = "the same where it adds, as the others where it does not"
    FOLLOWS = "as what it reads"
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
