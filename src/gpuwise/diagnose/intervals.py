"""Sets of time as sorted, disjoint intervals, as numpy arrays of nanoseconds. They are combined by union, never by sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Spans", "among", "union"]

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Spans:
    """Disjoint intervals in order, without empty ones."""

    start: Times
    end: Times

    def __len__(self) -> int:
        return len(self.start)

    @property
    def total_ns(self) -> int:
        return int((self.end - self.start).sum())

    def within(self, begin_ns: int, end_ns: int) -> Spans:
        """The part inside one interval."""
        start, end = np.maximum(self.start, begin_ns), np.minimum(self.end, end_ns)
        kept = end > start
        return Spans(start[kept], end[kept])

    def and_(self, other: Spans) -> Spans:
        """Return what both cover.

        >>> union(np.array([0, 10]), np.array([5, 20])).and_(union(np.array([3]), np.array([12]))).total_ns
        4
        """
        if len(other) < len(self):  # the intervals of the smaller set are looked up in the larger one
            return other.and_(self)
        first = np.searchsorted(other.end, self.start, side="right")
        last = np.searchsorted(other.start, self.end, side="left")
        count = np.maximum(last - first, 0)
        owner = np.repeat(np.arange(len(self)), count)
        offset = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
        partner = first[owner] + offset
        start = np.maximum(self.start[owner], other.start[partner])
        end = np.minimum(self.end[owner], other.end[partner])
        kept = end > start
        return Spans(start[kept], end[kept])

    def without(self, other: Spans) -> Spans:
        """Return what this covers and the other does not."""
        if not len(self):
            return self
        begin, end = int(self.start[0]), int(self.end[-1])
        return self.and_(other.gaps(begin, end)) if len(other.within(begin, end)) else self

    def gaps(self, begin_ns: int, end_ns: int) -> Spans:
        """Return what this leaves open between two times."""
        inside = self.within(begin_ns, end_ns)
        start = np.concatenate([np.array([begin_ns], dtype=np.int64), inside.end])
        end = np.concatenate([inside.start, np.array([end_ns], dtype=np.int64)])
        kept = end > start
        return Spans(start[kept], end[kept])


def union(start: Times, end: Times) -> Spans:
    """Convert any intervals, even overlapping ones, to disjoint ones."""
    kept = end > start
    start, end = start[kept].astype(np.int64), end[kept].astype(np.int64)
    if not len(start):
        return Spans(start, end)
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    fresh = np.concatenate([[True], start[1:] > reach[:-1]])
    last = np.concatenate([np.flatnonzero(fresh)[1:] - 1, [len(start) - 1]])
    return Spans(start[fresh], reach[last])


def among(values: Times, wanted: Times) -> npt.NDArray[np.bool_]:
    """Return which values are among the wanted ones. For ids, which are nearly sorted, this is several times as fast as
    `np.isin`.

    >>> among(np.array([3, 8, 1]), np.array([1, 2, 3])).tolist()
    [True, False, True]
    """
    if not len(wanted):
        return np.zeros(len(values), dtype=bool)
    ordered = np.sort(wanted)
    place = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return np.asarray(ordered[place] == values, dtype=bool)
