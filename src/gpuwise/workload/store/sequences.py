"""Sequences of whole numbers that repeat themselves, written so that a compressor sees it, and read back.

What a layer refers to stands a fixed distance behind what the next layer refers to in the same place. How many references of a
kind a layer has, the lag, differs from kind to kind. So each number is written less what the two that stand one lag and two lags
before it let expect, kind by kind: long runs of zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpuwise.workload.model.types import Ints

__all__ = ["as_array", "changes", "cut", "lags_of", "plain", "steps", "unchanged", "unstepped", "unstepped_in_order"]

_LONGEST_LAG = 128


def as_array(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def plain(values: Iterable[float]) -> list[float]:
    return [int(value) if float(value).is_integer() else float(value) for value in values]


def cut(values: list[int], lengths: Iterable[int]) -> list[tuple[int, ...]]:
    found, at = [], 0
    for length in lengths:
        found.append(tuple(values[at : at + length]))
        at += length
    return found


# ---------------------------------------------------------------- distances from the newest


def steps(values: Iterable[int]) -> list[int]:
    """How far behind the newest value each one stands; a new one is 0."""
    found, top = [], 0
    for value in values:
        found.append(top - value)
        top = max(top, value + 1)
    return found


def unstepped(given: Iterable[int]) -> list[int]:
    found, top = [], 0
    for step in given:
        value = top - step
        found.append(value)
        if value >= top:
            top = value + 1
    return found


def unstepped_in_order(given: Ints) -> Ints:
    """The same where every new value is the next whole number."""
    new = (given == 0).astype(np.int64)
    found: Ints = np.cumsum(new) - new - given
    return found


# ---------------------------------------------------------------- changes from one layer to the next


def lags_of(values: Ints, kind: Ints) -> list[int]:
    """The lag of each kind, in the order of the kinds."""
    return [_lag(values[kind == one]) for one in np.unique(kind)]


def _lag(values: Ints) -> int:
    """The distance at which the changes change least often; what has no rhythm gets 1."""
    best, least = 1, len(values) + 1
    for lag in range(1, min(_LONGEST_LAG, len(values) // 2) + 1):
        moved = values[lag:] - values[:-lag]
        cost = 2 * lag + int(np.count_nonzero(moved[lag:] != moved[:-lag]))
        if cost < least:
            best, least = lag, cost
    return best


def changes(values: Ints, kind: Ints, lags: Sequence[int]) -> Ints:
    """Each value less what was to be expected, kind by kind: in the first layer the value before it, in the second the one a lag
    before it, and from there on a step from the last layer that is as long as the step before."""
    order, place, lag = _order(kind, lags)
    ordered = values[order]
    expected = np.zeros_like(ordered)
    first, second = (place > 0) & (place < lag), (place >= lag) & (place < 2 * lag)
    later = place >= 2 * lag
    at = np.arange(len(ordered))
    expected[first] = ordered[at[first] - 1]
    expected[second] = ordered[(at - lag)[second]]
    expected[later] = 2 * ordered[(at - lag)[later]] - ordered[(at - 2 * lag)[later]]
    found: Ints = ordered - expected
    return found


def unchanged(given: Ints, kind: Ints, lags: Sequence[int]) -> Ints:
    """The values whose `changes` these are."""
    order, place, lag = _order(kind, lags)
    first = np.flatnonzero(place < lag)
    ordered = given.copy()
    ordered[first] = _sums(given[first], place[first] == 0)
    series = np.argsort((np.cumsum(place == 0) - 1) * (len(place) + 1) + place % lag, kind="stable")
    row, told = place[series] // lag[series], ordered[series]
    told[row > 0] = _sums(told[row > 0], row[row > 0] == 1)
    result = np.empty_like(given)
    result[order[series]] = _sums(told, row == 0)
    return result


def _order(kind: Ints, lags: Sequence[int]) -> tuple[Ints, Ints, Ints]:
    """The values in the order of their kinds, and of each its place in its kind and the lag there."""
    _, number, count = np.unique(kind, return_inverse=True, return_counts=True)
    if len(lags) != len(count) or min(lags, default=1) < 1:
        raise ValueError(f"{len(lags)} lags for {len(count)} kinds of references")
    place = np.arange(len(kind)) - np.repeat(np.cumsum(count) - count, count)
    return np.argsort(number, kind="stable"), place, np.repeat(as_array(lags), count)


def _sums(values: Ints, starts: NDArray[np.bool_]) -> Ints:
    """Running sums that start anew where this says so."""
    at, sums = np.flatnonzero(starts), np.cumsum(values)
    lengths = np.diff(np.append(at, len(values)))
    found: Ints = sums - np.repeat(sums[at] - values[at], lengths)
    return found
