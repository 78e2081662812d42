"""Interval sets behave as sets of moments."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuwise.diagnose.intervals import Spans, union

PAIRS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12)


def spans(pairs: list[tuple[int, int]]) -> Spans:
    start = np.array([min(pair) for pair in pairs], dtype=np.int64)
    end = np.array([max(pair) for pair in pairs], dtype=np.int64)
    return union(start, end)


def moments(found: Spans) -> set[int]:
    return {moment for start, end in zip(found.start.tolist(), found.end.tolist(), strict=True) for moment in range(start, end)}


@given(PAIRS)
def test_a_union_covers_each_moment_once(pairs: list[tuple[int, int]]) -> None:
    found = spans(pairs)
    assert moments(found) == {moment for pair in pairs for moment in range(min(pair), max(pair))}
    assert found.total_ns == len(moments(found))
    assert (found.start[1:] > found.end[:-1]).all()


@given(PAIRS, PAIRS)
def test_and_or_without_agree_with_sets(one: list[tuple[int, int]], two: list[tuple[int, int]]) -> None:
    first, second = spans(one), spans(two)
    assert moments(first.and_(second)) == moments(first) & moments(second)
    assert moments(first.without(second)) == moments(first) - moments(second)


@given(PAIRS, st.integers(0, 60), st.integers(0, 60))
def test_gaps_are_what_is_left(pairs: list[tuple[int, int]], one: int, two: int) -> None:
    begin, end = min(one, two), max(one, two)
    assert moments(spans(pairs).gaps(begin, end)) == set(range(begin, end)) - moments(spans(pairs))
