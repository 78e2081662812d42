"""PyTorch's allocator on hand-made sequences, by the rules and figures that PyTorch documents."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwise.step.memory.allocator import Block, CachingAllocator, ExpandableAllocator, OutOfMemory, TorchSettings, make_allocator
from gpuwise.step.memory.lifetimes import reserved_after

KIB, MIB = 2**10, 2**20


@pytest.mark.parametrize(
    ("asked", "allocated", "reserved"),
    [
        (0, 512, 2 * MIB),
        (1, 512, 2 * MIB),
        (512, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),  # the largest of the small pool
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 1, 10 * MIB, 10 * MIB),  # rounded to 10 MiB first, and that has a segment of its own
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB, 12 * MIB),  # a rest of 1 MiB is not split off
        (11 * MIB - 512, 11 * MIB - 512, 12 * MIB),  # a larger one is
        (201 * MIB, 202 * MIB, 202 * MIB),
    ],
)
def test_one_request_takes_the_documented_sizes(asked: int, allocated: int, reserved: int) -> None:
    allocator = CachingAllocator()
    block = allocator.allocate(asked)
    assert (allocator.allocated, allocator.reserved) == (allocated, reserved)
    allocator.release(block)
    assert (allocator.allocated, allocator.reserved) == (0, reserved)


def test_two_requests_of_1_mib_share_a_small_segment_and_a_third_takes_another() -> None:
    allocator = CachingAllocator()
    for _ in range(2):
        allocator.allocate(MIB)
    assert allocator.reserved == 2 * MIB
    allocator.allocate(512)
    assert allocator.reserved == 4 * MIB


def test_small_and_large_requests_never_share() -> None:
    allocator = CachingAllocator()
    allocator.release(allocator.allocate(20 * MIB))
    allocator.allocate(KIB)
    assert allocator.reserved == 22 * MIB


def test_the_smallest_block_that_is_large_enough_serves() -> None:
    allocator = CachingAllocator()
    blocks = [allocator.allocate(size * MIB) for size in (40, 24, 32)]
    for block in blocks:
        allocator.release(block)
    found = allocator.allocate(23 * MIB)
    assert found is blocks[1]
    assert found.size == 24 * MIB  # the rest of 1 MiB is not more than 1 MiB


def test_a_rest_of_more_than_1_mib_serves_the_next_request() -> None:
    allocator = CachingAllocator()
    allocator.release(allocator.allocate(40 * MIB))
    first, second = allocator.allocate(20 * MIB), allocator.allocate(20 * MIB)
    assert (first.size, second.size, allocator.reserved) == (20 * MIB, 20 * MIB, 40 * MIB)
    assert second.place == first.place + first.size


def test_freed_neighbours_grow_together() -> None:
    allocator = CachingAllocator()
    parts = [allocator.allocate(5 * MIB) for _ in range(4)]
    assert allocator.reserved == 20 * MIB
    for part in (parts[1], parts[3], parts[2]):
        allocator.release(part)
    assert allocator.allocate(15 * MIB).place == parts[1].place
    assert allocator.reserved == 20 * MIB


def test_fragments_cannot_serve_what_does_not_fit_one_of_them() -> None:
    allocator = CachingAllocator()
    parts = [allocator.allocate(5 * MIB) for _ in range(4)]
    allocator.release(parts[0])
    allocator.release(parts[2])
    allocator.allocate(9 * MIB)  # 10 MiB are free, in two pieces
    assert allocator.reserved == 40 * MIB


def test_segments_stay_reserved_until_the_cache_is_emptied() -> None:
    allocator = CachingAllocator()
    kept, freed = allocator.allocate(30 * MIB), allocator.allocate(50 * MIB)
    allocator.release(freed)
    assert allocator.reserved == 80 * MIB
    allocator.empty_cache()
    assert allocator.reserved == 30 * MIB
    allocator.release(kept)
    assert allocator.peak_reserved == 80 * MIB


def test_a_segment_in_part_in_use_is_not_given_back() -> None:
    allocator = CachingAllocator()
    first, second = allocator.allocate(5 * MIB), allocator.allocate(5 * MIB)
    allocator.release(first)
    allocator.empty_cache()
    assert allocator.reserved == 20 * MIB
    allocator.release(second)
    allocator.empty_cache()
    assert allocator.reserved == 0


def test_a_full_device_makes_it_give_back_and_try_again() -> None:
    allocator = CachingAllocator(limit_bytes=100 * MIB)
    allocator.release(allocator.allocate(60 * MIB))
    allocator.allocate(70 * MIB)
    assert (allocator.reserved, allocator.retries) == (70 * MIB, 1)
    with pytest.raises(OutOfMemory, match="requested"):
        allocator.allocate(40 * MIB)


def test_blocks_above_the_largest_split_serve_only_requests_of_about_their_size() -> None:
    allocator = CachingAllocator(TorchSettings(max_split_size=100 * MIB))
    large = allocator.allocate(200 * MIB)
    allocator.release(large)
    allocator.allocate(50 * MIB)  # not cut from the large one
    assert allocator.reserved == 250 * MIB
    allocator.allocate(150 * MIB)  # more than 20 MiB smaller
    assert allocator.reserved == 400 * MIB
    assert allocator.allocate(190 * MIB) is large
    assert large.size == 200 * MIB  # never split


def test_oversize_blocks_are_given_back_before_all_others() -> None:
    allocator = CachingAllocator(TorchSettings(max_split_size=100 * MIB), limit_bytes=300 * MIB)
    allocator.release(allocator.allocate(200 * MIB))
    allocator.release(allocator.allocate(50 * MIB))
    allocator.allocate(120 * MIB)
    assert (allocator.reserved, allocator.retries) == (170 * MIB, 0)


def test_garbage_is_collected_above_the_threshold_the_oldest_first() -> None:
    settings = TorchSettings(garbage_collection_threshold=0.5)
    allocator = CachingAllocator(settings, limit_bytes=200 * MIB)
    old, young = allocator.allocate(60 * MIB), allocator.allocate(50 * MIB)
    allocator.release(old)
    allocator.release(allocator.allocate(KIB))
    allocator.release(young)
    allocator.allocate(80 * MIB)
    assert allocator.reserved == (50 + 80 + 2) * MIB
    assert allocator.retries == 0


def test_expandable_segments_grow_by_pages_and_lose_nothing_to_fragments() -> None:
    allocator = ExpandableAllocator()
    parts = [allocator.allocate(15 * MIB) for _ in range(4)]
    assert (allocator.allocated, allocator.reserved) == (60 * MIB, 60 * MIB)
    for part in parts:
        allocator.release(part)
    allocator.allocate(70 * MIB)  # 60 MiB lie at the end, one page more is mapped
    assert allocator.reserved == 80 * MIB


def test_expandable_segments_unmap_free_pages_of_a_segment_in_use() -> None:
    allocator = ExpandableAllocator(limit_bytes=100 * MIB)
    first, second = allocator.allocate(50 * MIB), allocator.allocate(30 * MIB)
    allocator.release(first)
    allocator.empty_cache()
    assert allocator.reserved == 40 * MIB  # 40 of the 50 MiB are whole pages
    again = allocator.allocate(45 * MIB)
    assert again.place == first.place
    assert allocator.reserved == 80 * MIB
    allocator.release(second)


REQUESTS = st.lists(st.tuples(st.booleans(), st.integers(0, 64 * MIB)), max_size=60)


@given(REQUESTS, st.booleans())
def test_what_is_held_covers_what_is_in_use_and_blocks_never_overlap(requests: list[tuple[bool, int]], expandable: bool) -> None:
    allocator = make_allocator(TorchSettings(expandable_segments=expandable))
    live: list[tuple[int, Block]] = []
    for frees, size in requests:
        if frees and live:
            allocator.release(live.pop(size % len(live))[1])
        else:
            live.append((size, allocator.allocate(size)))
        assert allocator.allocated == sum(block.size for _, block in live)
        assert sum(size for size, _ in live) <= allocator.allocated <= allocator.reserved <= allocator.peak_reserved
        assert all(size <= block.size for size, block in live)
        places = sorted((block.pool.small, block.place, block.size) for _, block in live)
        assert all(a[0] != b[0] or a[1] + a[2] <= b[1] for a, b in itertools.pairwise(places))
    for _, block in live:
        allocator.release(block)
    allocator.empty_cache()
    assert (allocator.allocated, allocator.reserved) == (0, 0)


@given(REQUESTS, st.booleans(), st.integers(64, 512))
def test_a_limit_is_never_passed(requests: list[tuple[bool, int]], expandable: bool, limit: int) -> None:
    allocator = make_allocator(TorchSettings(expandable_segments=expandable), limit * MIB)
    live: list[Block] = []
    for frees, size in requests:
        if frees and live:
            allocator.release(live.pop(size % len(live)))
            continue
        try:
            live.append(allocator.allocate(size))
        except OutOfMemory:
            assert allocator.retries  # not before the cache was given back
        assert allocator.peak_reserved <= limit * MIB


@pytest.mark.parametrize(("asked", "reserved"), [(512, 2), (MIB, 2), (MIB + 1, 20), (20 * MIB, 20), (21 * MIB, 40)])
def test_expandable_segments_grow_by_pages_of_2_and_20_mib(asked: int, reserved: int) -> None:
    allocator = ExpandableAllocator()
    allocator.allocate(asked)
    assert allocator.reserved == reserved * MIB


def test_expandable_segments_split_off_every_rest() -> None:
    allocator = ExpandableAllocator()
    first, behind = allocator.allocate(1024), allocator.allocate(512)
    allocator.release(first)
    allocator.allocate(512)
    assert behind.size == 512
    assert allocator.allocated == 1024


@given(sizes=st.lists(st.integers(min_value=0, max_value=64 * MIB), min_size=1, max_size=60), data=st.data())
def test_the_short_way_holds_as_much_as_one_request_after_another(sizes: list[int], data: st.DataObject) -> None:
    """Replays of whole steps take a short way through the same rules."""
    events: list[tuple[int, float]] = []
    held: list[int] = []
    for who, size in enumerate(sizes):
        events.append((who, float(size)))
        held.append(who)
        while held and data.draw(st.booleans()):
            events.append((held.pop(data.draw(st.integers(0, len(held) - 1))), -1.0))
    events += [(who, -1.0) for who in held] + events  # a second step finds the blocks of the first
    slow = CachingAllocator()
    blocks: dict[int, Block] = {}
    for who, asked in events:
        if asked < 0:
            slow.release(blocks.pop(who))
        else:
            blocks[who] = slow.allocate(asked)
    assert reserved_after(np.array([who for who, _ in events]), np.array([asked for _, asked in events])) == slow.reserved
