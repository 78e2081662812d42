"""What PyTorch's caching allocator holds after a program, on a device that never runs out of memory.

The rules are those of `allocator.py`. Without a limit, the pools for small and for large requests do not affect each other, and
memory is never given back to the device. Free blocks are then the gaps between the blocks in use, so that plain numbers describe
a pool. `fit` and `plan` simulate many steps, and this takes less than half the time.
"""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

from gpuwise.step.memory.allocator import LARGE_SEGMENT, OWN_SEGMENT, ROUNDED_TO, SEGMENT_ROUNDED_TO, SMALL, SMALL_SEGMENT
from gpuwise.step.types import Array

__all__ = ["reserved_after"]

_PLACE_BITS = 40  # places and sizes are counted in units of 512 bytes
_PLACE = (1 << _PLACE_BITS) - 1
_SMALL, _SMALL_SEGMENT, _LARGE_SEGMENT, _OWN_SEGMENT, _SEGMENT_ROUNDED_TO = (
    size // ROUNDED_TO for size in (SMALL, SMALL_SEGMENT, LARGE_SEGMENT, OWN_SEGMENT, SEGMENT_ROUNDED_TO)
)


def reserved_after(who: Array, sizes: Array) -> int:
    """Return the bytes held after these requests, in program order. Each row requests the block `who`, or frees it where the size
    is below 0.
    """
    frees = sizes < 0
    units = np.where(frees, 0, np.maximum(1, -(-sizes.astype(np.int64) // ROUNDED_TO)))
    largest = np.zeros(int(who.max(initial=0)) + 1, dtype=np.int64)
    largest[who[~frees]] = units[~frees]  # the size of a block is the same whenever it is requested
    small = largest[who] <= _SMALL
    pools = ((small, _SMALL_SEGMENT, 1), (~small, 0, _SMALL + 1))
    return ROUNDED_TO * sum(_held(who[rows].tolist(), units[rows].tolist(), segment, least) for rows, segment, least in pools)


def _held(who: list[int], units: list[int], segment: int, least: int) -> int:
    """Return the units held by one pool. New memory comes in segments of one size, or by the request if that is 0. A rest of a
    block is split off if it has at least `least` units.

    `free` has the free blocks as numbers that sort by size, then place. `starts` and `ends` find them by either end.
    """
    free: list[int] = []
    starts: dict[int, int] = {}  # place -> size
    ends: dict[int, int] = {}  # place after the end -> size
    used: dict[int, tuple[int, int]] = {}
    held = top = 0
    for block, asked in zip(who, units, strict=True):
        if not asked:
            place, size = used.pop(block)
            after = starts.pop(place + size, 0)
            if after:
                del free[bisect_left(free, after << _PLACE_BITS | place + size)]
                size += after
            before = ends.pop(place, 0)
            if before:
                place -= before
                del free[bisect_left(free, before << _PLACE_BITS | place)]
                size += before
            starts[place] = ends[place + size] = size
            insort(free, size << _PLACE_BITS | place)
            continue
        at = bisect_left(free, asked << _PLACE_BITS)
        if at < len(free):
            found = free.pop(at)
            place, size = found & _PLACE, found >> _PLACE_BITS
            del starts[place]
        else:
            place, size = top, segment or _own_segment(asked)
            held += size
            top += size + 1  # the next segment is no neighbour
        left = size - asked
        if left >= least:
            rest = place + asked
            starts[rest] = ends[place + size] = left
            insort(free, left << _PLACE_BITS | rest)
            size = asked
        else:
            ends.pop(place + size, 0)
        used[block] = place, size
    return held


def _own_segment(asked: int) -> int:
    """Return the size of a new segment of the large pool."""
    return _LARGE_SEGMENT if asked < _OWN_SEGMENT else -(-asked // _SEGMENT_ROUNDED_TO) * _SEGMENT_ROUNDED_TO
