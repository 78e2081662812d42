"""TensorFlow's and JAX's allocator on hand-made sequences."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwise.step.memory.allocator import Block, OutOfMemory
from gpuwise.step.memory.bfc import BfcAllocator

MIB = 2**20


def test_regions_double_as_they_grow() -> None:
    allocator = BfcAllocator()
    reserved = []
    for _ in range(4):
        allocator.allocate(2 * MIB)
        reserved.append(allocator.reserved // MIB)
    assert reserved == [2, 6, 6, 14]


def test_a_request_larger_than_the_next_region_takes_the_first_doubling_that_holds_it() -> None:
    allocator = BfcAllocator()
    allocator.allocate(100 * MIB)
    assert allocator.reserved == 128 * MIB
    assert allocator.allocated == 128 * MIB  # less than twice the request, less than 128 MiB too large: not split


@pytest.mark.parametrize(("chunk", "asked", "given"), [(512, 200, 256), (512, 300, 512), (768, 256, 256), (1024, 600, 1024)])
def test_chunks_are_split_at_twice_the_request(chunk: int, asked: int, given: int) -> None:
    allocator = BfcAllocator(first_bytes=chunk)
    assert allocator.allocate(asked).size == given


def test_a_grabbed_device_is_one_region_and_all_there_is() -> None:
    allocator = BfcAllocator(first_bytes=1000 * MIB, limit_bytes=1000 * MIB)
    assert allocator.reserved == 1000 * MIB
    block = allocator.allocate(900 * MIB)
    with pytest.raises(OutOfMemory):
        allocator.allocate(200 * MIB)
    allocator.release(block)
    allocator.allocate(999 * MIB)
    assert allocator.peak_reserved == 1000 * MIB


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 64 * MIB)), max_size=60))
def test_what_is_held_covers_what_is_in_use(requests: list[tuple[bool, int]]) -> None:
    allocator = BfcAllocator()
    live: list[Block] = []
    for frees, size in requests:
        if frees and live:
            allocator.release(live.pop(size % len(live)))
        else:
            live.append(allocator.allocate(size))
            assert live[-1].size >= size
        assert allocator.allocated == sum(block.size for block in live) <= allocator.reserved
        places = sorted((block.place, block.size) for block in live)
        assert all(a + size <= b for (a, size), (b, _) in itertools.pairwise(places))
