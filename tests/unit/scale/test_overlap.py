"""Gradient buckets on two lanes, compute and communication."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpuwise.core.units import MIB
from gpuwise.scale.split.data_parallel import BUCKET_BYTES, FIRST_BUCKET_BYTES, Buckets, Overlap, bucket_ends, overlapped

SIZES = st.lists(st.floats(1.0, 60 * MIB), min_size=1, max_size=60)
Array = NDArray[np.float64]


def averaged_in(ready: Array, sizes: Array, end_s: float, cost: Callable[[Array], Array], slowed: float = 0.0) -> Overlap:
    """A backward pass of `end_s` whose gradients of these sizes are averaged by messages of this cost."""
    buckets = Buckets.of(sizes)
    return overlapped(ready, buckets, end_s, cost(buckets.size_bytes), slowed_fraction=slowed)


@given(sizes=SIZES)
def test_buckets_hold_every_gradient_once_and_the_first_is_small(sizes: list[float]) -> None:
    ends = bucket_ends(np.array(sizes))
    assert ends[-1] == len(sizes) - 1
    assert np.all(np.diff(ends) > 0)
    filled = np.diff(np.concatenate([[0.0], np.cumsum(sizes)[ends]]))
    assert filled.sum() == pytest.approx(sum(sizes))
    if len(ends) > 1:
        assert filled[0] >= FIRST_BUCKET_BYTES
        assert np.all(filled[1:-1] >= BUCKET_BYTES * 0.999)


@given(sizes=SIZES, rate=st.floats(1e8, 1e11), slowed=st.floats(0.0, 1.0))
def test_what_is_felt_lies_between_nothing_and_all(sizes: list[float], rate: float, slowed: float) -> None:
    ready = np.linspace(0.3, 0.1, len(sizes))[::-1]
    found = averaged_in(ready, np.array(sizes), 0.3, lambda size: size / rate, slowed)
    assert found.comm_s == pytest.approx(sum(sizes) / rate)
    last = found.bucket_bytes[-1] / rate
    assert last * 0.999 <= found.exposed_s <= found.comm_s * 1.0001 + 1e-12
    assert np.all(found.start_s[1:] >= found.end_s[:-1] * 0.9999)


def test_free_messages_cost_nothing() -> None:
    found = averaged_in(np.array([1.0]), np.array([1e6]), 1.0, lambda size: np.zeros_like(size))
    assert found.exposed_s == 0.0


def test_communication_waits_for_gradients_and_for_the_lane() -> None:
    ready = np.array([1.0, 2.0, 3.0])
    found = averaged_in(ready, np.full(3, 30 * MIB), 3.0, lambda size: np.full(size.shape, 1.5))
    assert found.start_s.tolist() == [1.0, 2.5, 4.0]
    assert found.exposed_s == pytest.approx(2.5)


def test_compute_is_slower_while_messages_are_under_way() -> None:
    """One message of a second at 1 s; half speed meanwhile: the second half of the work ends half a second late."""
    ready, sizes = np.array([1.0, 3.0]), np.array([30 * MIB, 1.0])
    found = averaged_in(ready, sizes, 3.0, lambda size: np.where(size > 2.0, 1.0, 0.0), 0.5)
    assert found.exposed_s == pytest.approx(0.5)


def test_fully_slowed_compute_adds_every_message() -> None:
    ready = np.linspace(0.1, 1.0, 8)
    found = averaged_in(ready, np.full(8, 30 * MIB), 1.0, lambda size: np.full(size.shape, 0.2), 1.0)
    assert found.exposed_s == pytest.approx(8 * 0.2)


def test_a_bucket_that_is_just_full_is_sent() -> None:
    assert bucket_ends(np.array([1 * MIB, 25 * MIB, 10 * MIB, 15 * MIB, 24 * MIB, 1.0])).tolist() == [0, 1, 3, 5]


def test_compute_is_slower_under_every_message_of_a_row() -> None:
    """Two messages of a second, from 1 s to 3 s, the second called for during the first: at half speed the two seconds
    hold one second of work, so work of 2.5 s ends at 3.5 s."""
    ready, sizes = np.array([1.0, 1.25, 2.5]), np.array([30 * MIB, 30 * MIB, 1.0])
    found = averaged_in(ready, sizes, 2.5, lambda size: np.where(size > 2.0, 1.0, 0.0), 0.5)
    assert found.start_s.tolist() == [1.0, 2.0, 3.5]
    assert found.exposed_s == pytest.approx(1.0)
