"""Builds an event table in batches: names are interned, and columns are numpy arrays that grow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuwise.trace.types import Events, Kind

__all__ = ["LONGEST_TEXT", "Interner", "TableBuilder"]

_DTYPES: dict[str, Any] = {
    "kind": np.uint8,
    "name": np.int32,
    "start_ns": np.int64,
    "duration_ns": np.int64,
    "process": np.int32,
    "thread": np.int32,
    "device": np.int32,
    "stream": np.int64,
    "correlation": np.int64,
    "size_bytes": np.int64,
    "blocks_per_sm": np.float32,
    "shape": np.int32,
}
LONGEST_TEXT = 2000
_ABSENT = {"kind": Kind.OTHER, "blocks_per_sm": np.nan}
_ROOM = 1.25  # rows that a growing table has room for, in relation to those it has


class Interner(dict[Any, int]):
    """Gives each distinct value the next number; a successful look-up costs no Python call. Long texts are shortened."""

    def __missing__(self, value: Any) -> int:
        if isinstance(value, (str, bytes)) and len(value) > LONGEST_TEXT:
            return self[value[:LONGEST_TEXT]]
        self[value] = number = len(self)
        return number

    def many(self, values: Iterable[Any], count: int) -> npt.NDArray[np.int32]:
        """The numbers of several values."""
        return np.fromiter(map(self.__getitem__, values), dtype=np.int32, count=count)


class TableBuilder:
    """Collects columns batch by batch. Each column is one array with room for more rows, which grows without being copied."""

    def __init__(self) -> None:
        self._columns: dict[str, npt.NDArray[Any]] = {name: np.empty(0, dtype=dtype) for name, dtype in _DTYPES.items()}
        self.rows = 0

    def add(self, count: int, **columns: Any) -> None:
        """Append `count` rows. A column is a value for all of them, an array, or a pair of some of the rows and their values; the
        rest is "not in the trace".
        """
        begin, self.rows = self.rows, self.rows + count
        if len(self._columns["kind"]) < self.rows:
            self._grow(begin)
        for name, values in columns.items():
            added = self._columns[name][begin : self.rows]
            if isinstance(values, tuple):
                added[values[0]] = values[1]
            else:
                added[:] = values

    def _grow(self, begin: int) -> None:
        for name, column in self._columns.items():
            column.resize(int(_ROOM * self.rows), refcheck=False)
            column[begin:] = _ABSENT.get(name, -1)

    def build(self) -> Events:
        """Return the table in order of start; of events that start together, the longer one first, so a parent precedes its
        child.
        """
        order = self._order()
        sorted_already = bool((order[1:] > order[:-1]).all())
        columns: dict[str, npt.NDArray[Any]] = {}
        for name in _DTYPES:  # one column at a time, so that it is freed before the next is sorted
            column = self._columns.pop(name)
            if sorted_already:
                column.resize(self.rows, refcheck=False)
            columns[name] = column if sorted_already else column[order]
        return Events(**columns)

    def _order(self) -> npt.NDArray[np.intp]:
        start, duration = (self._columns[name][: self.rows] for name in ("start_ns", "duration_ns"))
        order = np.argsort(start, kind="stable")
        ordered = start[order]
        tied = np.concatenate([[False], ordered[1:] == ordered[:-1]])
        tied[:-1] |= tied[1:]
        if tied.any():  # only the few that do are sorted again
            rows = order[tied]
            order[tied] = rows[np.lexsort((-duration[rows], start[rows]))]
        return order
