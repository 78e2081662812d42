"""Long lists of small records, kept as columns: arrays for arithmetic, objects made only for who looks at single ones.

A step of a large model has twenty thousand calls and buffers. As arrays they load in milliseconds, and most answers need no more.
"""

from __future__ import annotations

import gc
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import cached_property
from itertools import repeat
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ints", "Rows", "ints", "made", "no_collection"]

Ints = NDArray[np.int64]
_Row = TypeVar("_Row")


def ints(values: Iterable[int]) -> Ints:
    """These numbers as an array."""
    return np.fromiter(values, dtype=np.int64)


class Rows(Sequence[_Row]):
    """A sequence whose class holds columns and says how `_made` turns them into rows; that happens once, when first asked."""

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
    """Objects of a frozen class with slots, filled field by field: a third of the time of calling the class for each."""
    first = list(columns[0])
    objects = list(map(object.__new__, repeat(kind, len(first))))
    for field, column in zip(fields(kind), (first, *columns[1:]), strict=True):  # type: ignore[arg-type]
        deque(map(getattr(kind, field.name).__set__, objects, column), maxlen=0)
    return tuple(objects)


@contextmanager
def no_collection() -> Iterator[None]:
    """Pause the garbage collector: it would search thousands of new objects for garbage that is not there."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
