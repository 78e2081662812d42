"""The types for a workload: the ops of one step in order, and the buffers they leave in memory. Independent of any GPU.

Sizes are symbolic. A dimension is a polynomial `c0 + c1·batch + c2·seq + c3·batch·seq`; a size is a product of dimensions. One
capture therefore serves every batch (and sequence) by arithmetic. Ops with the same signature are stored once and called many
times.
"""

from __future__ import annotations

import gc
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import chain, repeat
from operator import attrgetter
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from gpuwise.core.errors import BadValue
from gpuwise.kernels.types import DTYPE_BYTES, AttrValue

__all__ = [
    "CATEGORIES",
    "DTYPE_BYTES",
    "MODES",
    "OPTIMIZERS",
    "PHASES",
    "PRECISIONS",
    "AttrValue",
    "Buffer",
    "Buffers",
    "Call",
    "Calls",
    "Form",
    "Ints",
    "Op",
    "Rows",
    "Settings",
    "TensorSpec",
    "Workload",
    "ints",
    "made",
    "no_collection",
]

# ---------------------------------------------------------------- records as columns
# Long lists of small records, stored as columns: arrays for arithmetic, objects only for code that needs single records.
#
# A step of a large model has twenty thousand calls and buffers. As arrays they load in milliseconds, and most answers need
# nothing else.

Ints = NDArray[np.int64]
_Row = TypeVar("_Row")


def ints(values: Iterable[int]) -> Ints:
    """Return these numbers as an array."""
    return np.fromiter(values, dtype=np.int64)


class Rows(Sequence[_Row]):
    """A sequence whose class holds columns and defines in `_made` how to turn them into rows; this happens once, on first use."""

    @abstractmethod
    def _made(self) -> tuple[_Row, ...]: ...

    @cached_property
    def _rows(self) -> tuple[_Row, ...]:
        with no_collection():
            return self._made()

    @overload
    def __getitem__(self, index: int) -> _Row: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[_Row, ...]: ...

    def __getitem__(self, index: int | slice) -> _Row | tuple[_Row, ...]:
        return self._rows[index]

    def __iter__(self) -> Iterator[_Row]:
        return iter(self._rows)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # equal to a tuple of the same rows, which hashes otherwise


def made(kind: type[_Row], *columns: Iterable[Any]) -> tuple[_Row, ...]:
    """Create objects of a frozen class with slots field by field, in a third of the time that calling the class takes."""
    first = list(columns[0])
    objects = list(map(object.__new__, repeat(kind, len(first))))
    for one, column in zip(fields(kind), (first, *columns[1:]), strict=True):  # type: ignore[arg-type]
        deque(map(getattr(kind, one.name).__set__, objects, column), maxlen=0)
    return tuple(objects)


@contextmanager
def no_collection() -> Iterator[None]:
    """Pause the garbage collector, which would search thousands of new objects in vain."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


# ---------------------------------------------------------------- a workload

PHASES = ("forward", "backward", "optimizer")
CATEGORIES = ("weight", "gradient", "optimizer", "input", "activation", "temporary")


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The part of a tensor that a kernel reads or writes: a dtype and a number of elements (a row of `products`)."""

    dtype: str
    elements: int


@dataclass(frozen=True, slots=True)
class Op:
    """One signature of work. `sizes` are rows of `products`, whose meaning depends on the kind
    (`gpuwise.kernels.registry.KINDS`); reads and writes are rows of `tensors`.
    """

    kind: str
    name: str
    dtype: str
    sizes: tuple[int, ...]
    attrs: Mapping[str, AttrValue]
    reads: tuple[int, ...]
    writes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One execution of an op: the op, the phase, the module, and the buffers it reads and writes."""

    op: int
    phase: int
    module: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Calls(Rows[Call]):
    """The calls of a step as columns. `refs` are the buffers of every call, reads before writes, concatenated."""

    op: Ints
    phase: Ints
    module: Ints
    read_count: Ints
    written_count: Ints
    refs: Ints

    @classmethod
    def of(cls, calls: Sequence[Call]) -> Calls:
        """Return the columns for these calls."""
        return cls(
            op=ints(map(attrgetter("op"), calls)),
            phase=ints(map(attrgetter("phase"), calls)),
            module=ints(map(attrgetter("module"), calls)),
            read_count=ints(map(len, map(attrgetter("reads"), calls))),
            written_count=ints(map(len, map(attrgetter("writes"), calls))),
            refs=ints(chain.from_iterable(chain.from_iterable(map(attrgetter("reads", "writes"), calls)))),
        )

    def __len__(self) -> int:
        return len(self.op)

    def _made(self) -> tuple[Call, ...]:
        refs = tuple(self.refs.tolist())
        ends = np.cumsum(self.read_count + self.written_count)
        middles = ends - self.written_count
        start, middle, end = (places.tolist() for places in (middles - self.read_count, middles, ends))
        reads, writes = (map(refs.__getitem__, map(slice, *places)) for places in ((start, middle), (middle, end)))
        return made(Call, self.op.tolist(), self.phase.tolist(), self.module.tolist(), reads, writes)


@dataclass(frozen=True, slots=True)
class Buffer:
    """One allocation, live during every call `i` with `born <= i < died`. Those that outlive the step die after the last call."""

    tensor: int
    category: int
    born: int
    died: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Buffers(Rows[Buffer]):
    """The buffers of a step as columns."""

    tensor: Ints
    category: Ints
    born: Ints
    died: Ints

    @classmethod
    def of(cls, buffers: Sequence[Buffer]) -> Buffers:
        """Return the columns for these buffers."""
        return cls(
            tensor=ints(map(attrgetter("tensor"), buffers)),
            category=ints(map(attrgetter("category"), buffers)),
            born=ints(map(attrgetter("born"), buffers)),
            died=ints(map(attrgetter("died"), buffers)),
        )

    def __len__(self) -> int:
        return len(self.tensor)

    def _made(self) -> tuple[Buffer, ...]:
        return made(Buffer, self.tensor.tolist(), self.category.tolist(), self.born.tolist(), self.died.tolist())


class Form:
    """The part of a step that stays the same when only its sizes change. Values that are computed once are cached on it."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, kw_only=True, eq=False)
class Workload:
    """One step of one model: training (forward, backward, optimizer) or inference (forward).

    Every workload has its own `form`, except for those derived with `sized`.
    """

    model: str
    source: str
    mode: str
    precision: str
    optimizer: str = ""
    options: Mapping[str, AttrValue] = field(default_factory=dict)
    batch: int
    seq: int | None = None
    symbols: tuple[str, ...] = ()
    parameters: int
    dims: NDArray[np.float64]
    products: tuple[tuple[int, ...], ...]
    tensors: tuple[TensorSpec, ...]
    ops: tuple[Op, ...]
    calls: Calls
    modules: tuple[str, ...]
    buffers: Buffers
    notes: tuple[str, ...] = ()
    form: Form = field(default_factory=Form, init=False, repr=False)

    def sized(self, *, batch: int | None = None, seq: int | None = None) -> Workload:
        """Return the same step at another batch or sequence, sharing this one's form."""
        if batch in (None, self.batch) and seq in (None, self.seq):
            return self
        found = replace(self, batch=self.batch if batch is None else batch, seq=self.seq if seq is None else seq)
        object.__setattr__(found, "form", self.form)
        return found


# ---------------------------------------------------------------- how a model is to be captured

MODES = ("train", "infer")
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "amp", "amp-bf16", "fp8")
OPTIMIZERS = ("none", "sgd", "momentum", "adam", "adamw", "adafactor", "lion", "adam8bit")
_IMPLEMENTATIONS = ("foreach", "fused", "for-loop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The choices behind one workload. A step has `accumulate` micro-batches."""

    mode: str = "train"
    precision: str = "fp32"
    optimizer: str = "sgd"
    implementation: str = "foreach"
    accumulate: int = 1
    checkpoint: bool = False
    channels_last: bool = False
    clip: bool = False

    def __post_init__(self) -> None:
        for value, known, what in (
            (self.mode, MODES, "mode"),
            (self.precision, PRECISIONS, "precision"),
            (self.optimizer, OPTIMIZERS, "optimizer"),
            (self.implementation, _IMPLEMENTATIONS, "optimizer implementation"),
        ):
            if value not in known:
                raise BadValue(f"unknown {what} '{value}'", known=", ".join(known), hint=f"try `{known[0]}`")
        if not 1 <= self.accumulate <= 1024:
            raise BadValue(f"{self.accumulate} micro-batches per step cannot be captured", hint="use between 1 and 1024")
