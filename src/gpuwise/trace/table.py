"""Builds an event table in batches: names are interned, and columns are kept as numpy pieces that are joined once at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuwise.trace.types import Events

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
_ABSENT = {"blocks_per_sm": np.nan}


class Interner(dict[Any, int]):
    """Each distinct value gets the next number; a look-up that hits costs no Python call. Long texts are cut."""

    def __missing__(self, value: Any) -> int:
        if isinstance(value, (str, bytes)) and len(value) > LONGEST_TEXT:
            return self[value[:LONGEST_TEXT]]
        self[value] = number = len(self)
        return number

    def many(self, values: Iterable[Any], count: int) -> npt.NDArray[np.int32]:
        """The numbers of several values."""
        return np.fromiter(map(self.__getitem__, values), dtype=np.int32, count=count)


class TableBuilder:
    """Collects columns batch by batch."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[npt.NDArray[Any]]] = {column.name: [] for column in fields(Events)}
        self.rows = 0

    def add(self, count: int, **columns: Any) -> None:
        """Append `count` rows; a column that is not given is "not in the trace"."""
        for name, pieces in self._pieces.items():
            given = columns.get(name)
            if given is None:
                given = np.full(count, _ABSENT.get(name, -1), dtype=_DTYPES[name])
            pieces.append(np.asarray(given, dtype=_DTYPES[name]))
        self.rows += count

    def build(self) -> Events:
        """The table in order of start; of events that start together the longer one first: a parent precedes its child."""
        start, duration = self._joined("start_ns"), self._joined("duration_ns")
        order = np.argsort(start, kind="stable")
        ordered = start[order]
        tied = np.concatenate([[False], ordered[1:] == ordered[:-1]])
        tied[:-1] |= tied[1:]
        if tied.any():  # few do: only those are sorted again
            rows = order[tied]
            order[tied] = rows[np.lexsort((-duration[rows], start[rows]))]
        sorted_already = bool((order[1:] > order[:-1]).all())
        columns: dict[str, npt.NDArray[Any]] = {}
        for name in list(self._pieces):  # one column at a time: its pieces are gone before the next is joined
            column = self._joined(name)
            self._pieces.pop(name)
            columns[name] = column if sorted_already else column[order]
        return Events(**columns)

    def _joined(self, name: str) -> npt.NDArray[Any]:
        pieces = self._pieces[name]
        if len(pieces) > 1:
            self._pieces[name] = pieces = [np.concatenate(pieces)]
        return pieces[0] if pieces else np.empty(0, dtype=_DTYPES[name])
