"""Simulates PyTorch's caching allocator: how much GPU memory it takes for a sequence of allocations and frees.

The rules and constants come from PyTorch's documentation ("CUDA semantics", memory management) and source
(`c10/core/AllocatorConfig.h`, `c10/cuda/CUDACachingAllocator.cpp`). Sizes are rounded to 512 bytes. Requests up to 1 MiB are cut
from segments of 2 MiB, others below 10 MiB from segments of 20 MiB, and larger ones get a segment rounded to 2 MiB. The smallest
free block that is large enough is used, and the rest of it is split off if it is worth keeping. Adjacent free blocks are merged.
Segments are kept until the device is full. Only one stream is simulated.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

__all__ = [
    "LARGE_SEGMENT",
    "MIB",
    "ROUNDED_TO",
    "SMALL",
    "SMALL_SEGMENT",
    "Block",
    "CachingAllocator",
    "ExpandableAllocator",
    "OutOfMemory",
    "Pool",
    "TorchSettings",
    "insert_after",
    "joined",
    "make_allocator",
    "merged",
]

MIB = 2**20
ROUNDED_TO = 512
SMALL = MIB  # the largest request in the small pool
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB
OWN_SEGMENT = 10 * MIB  # requests of this size or more get their own segment
SEGMENT_ROUNDED_TO = 2 * MIB
OVERSIZE_SLACK = 20 * MIB  # a block above `max_split_size` may exceed the request it serves by this much


class OutOfMemory(Exception):
    """The device has no room for a request, even after all completely free segments were released."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchSettings:
    """The settings in `PYTORCH_CUDA_ALLOC_CONF`. As in PyTorch, `garbage_collection_threshold` only works with a limit."""

    expandable_segments: bool = False
    max_split_size: float = float("inf")
    garbage_collection_threshold: float = 0.0


class Block:
    """A piece of a segment: in use, free, or (with expandable segments only) not backed by memory."""

    __slots__ = ("free", "freed_at", "mapped", "next", "place", "pool", "previous", "size")

    def __init__(self, place: int, size: int, pool: Pool) -> None:
        self.place, self.size, self.pool = place, size, pool
        self.free, self.mapped, self.freed_at = True, True, 0
        self.previous: Block | None = None
        self.next: Block | None = None

    @property
    def whole(self) -> bool:
        """Whether the block covers its whole segment."""
        return self.previous is None and self.next is None


class Pool:
    """The free blocks for small or large requests, ordered by size and then address."""

    __slots__ = ("blocks", "small")

    def __init__(self, small: bool) -> None:
        self.small = small
        self.blocks: list[tuple[int, int, Block]] = []

    def add(self, block: Block) -> None:
        insort(self.blocks, (block.size, block.place, block))

    def remove(self, block: Block) -> None:
        del self.blocks[bisect_left(self.blocks, (block.size, block.place))]

    def best(self, size: int) -> Block | None:
        at = bisect_left(self.blocks, (size, -1))
        return self.blocks[at][2] if at < len(self.blocks) else None


def insert_after(block: Block, rest: Block) -> None:
    """Make `rest` the right neighbour of `block`."""
    rest.previous, rest.next = block, block.next
    if block.next is not None:
        block.next.previous = rest
    block.next = rest


def merged(left: Block, right: Block) -> Block:
    """Merge two neighbours into one."""
    left.size += right.size
    left.next = right.next
    if right.next is not None:
        right.next.previous = left
    return left


def joined(block: Block) -> Block:
    """Merge a free block with its free neighbours, which are removed from their pool's list."""
    before = block.previous
    if before is not None and before.free and before.mapped:
        before.pool.remove(before)
        before.freed_at = block.freed_at
        block = merged(before, block)
    after = block.next
    if after is not None and after.free and after.mapped:
        after.pool.remove(after)
        block = merged(block, after)
    return block


class CachingAllocator:
    """Takes requests and frees in order. Its counters match what `torch.cuda.memory_stats` would show."""

    def __init__(self, settings: TorchSettings | None = None, limit_bytes: float = float("inf")) -> None:
        self.settings = settings or TorchSettings()
        self.limit = limit_bytes
        self._largest_split = self.settings.max_split_size
        self.allocated = self.reserved = self.peak_allocated = self.peak_reserved = 0
        self.retries = 0
        self.pools = (Pool(False), Pool(True))
        self._next_place = 0
        self._clock = 0

    def allocate(self, size: float) -> Block:
        """Return a block for this request, or raise OutOfMemory if there is no room."""
        rounded = -(-int(size) // ROUNDED_TO) * ROUNDED_TO or ROUNDED_TO
        pool = self.pools[rounded <= SMALL]
        self._clock += 1
        block = self._from_cache(pool, rounded) or self._from_device(pool, rounded)
        if block.size != rounded and self.worth_splitting(block, rounded):
            self._split(block, rounded)
        block.free = False
        self.allocated += block.size
        if self.allocated > self.peak_allocated:
            self.peak_allocated = self.allocated
        return block

    def release(self, block: Block) -> None:
        """End the request for this block. The block stays in the cache, merged with its free neighbours."""
        self.allocated -= block.size
        block.free, block.freed_at = True, self._clock
        block.pool.add(joined(block))

    def empty_cache(self) -> None:
        """Release every completely free segment to the device."""
        for pool in self.pools:
            for _, _, block in list(pool.blocks):
                if block.whole:
                    self._give_back(block)

    # ------------------------------------------------------------ free blocks

    def _from_cache(self, pool: Pool, size: int) -> Block | None:
        at = bisect_left(pool.blocks, (size, -1))
        if at == len(pool.blocks):
            return None
        block, largest = pool.blocks[at][2], self._largest_split
        if size < largest <= block.size or (size >= largest and block.size >= size + OVERSIZE_SLACK):
            return None
        del pool.blocks[at]
        return block

    def worth_splitting(self, block: Block, size: int) -> bool:
        left = block.size - size
        if block.pool.small:
            return left >= ROUNDED_TO
        return size < self._largest_split and left > SMALL

    def _split(self, block: Block, size: int) -> None:
        rest = Block(block.place + size, block.size - size, block.pool)
        rest.freed_at = block.freed_at
        block.size = size
        insert_after(block, rest)
        block.pool.add(rest)

    # ------------------------------------------------------------ memory of the device

    def _from_device(self, pool: Pool, size: int) -> Block:
        """Get new memory. If there is none, release some of the cached memory, then all of it."""
        self._collect_garbage()
        block = self.new(pool, size)
        if block is None:
            self._free_oversize(size)
            block = self.new(pool, size)
        if block is None:
            self.retries += 1
            self.empty_cache()
            block = self.new(pool, size)
        if block is None:
            raise OutOfMemory(f"{size:,} bytes requested, but {self.allocated:,} of {self.limit:,.0f} are in use")
        return block

    def new(self, pool: Pool, size: int) -> Block | None:
        """Return a newly reserved block, or None if the device is full."""
        if size <= SMALL:
            whole = SMALL_SEGMENT
        else:
            whole = LARGE_SEGMENT if size < OWN_SEGMENT else -(-size // SEGMENT_ROUNDED_TO) * SEGMENT_ROUNDED_TO
        if not self.take(whole):
            return None
        block = Block(self._next_place, whole, pool)
        self._next_place += whole
        return block

    def take(self, size: int) -> bool:
        """Reserve this much device memory, if it is available."""
        if self.reserved + size > self.limit:
            return False
        self.reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return True

    def _give_back(self, block: Block) -> None:
        block.pool.remove(block)
        self.reserved -= block.size

    def _free_oversize(self, size: int) -> None:
        """With a maximum split size, release larger blocks first: a single one that suffices, or the largest ones until there is
        enough.
        """
        largest = self.settings.max_split_size
        if largest == float("inf"):
            return
        pool = self.pools[False]
        enough = pool.best(max(size, int(largest)))
        if enough is not None and enough.whole:
            self._give_back(enough)
            return
        freed = 0
        for _, _, block in reversed(list(pool.blocks)):
            if block.size < largest or freed >= size:
                return
            if block.whole:
                freed += block.size
                self._give_back(block)

    def _collect_garbage(self) -> None:
        """Above the threshold, release large segments that were unused for at least the average time, until usage is below it."""
        threshold = self.settings.garbage_collection_threshold * self.limit if self.settings.garbage_collection_threshold else 0
        wanted = self.reserved - threshold if threshold else 0
        while wanted > 0:
            idle = [block for _, _, block in self.pools[False].blocks if block.whole]
            if not idle:
                return
            average = sum(self._clock - block.freed_at for block in idle) / len(idle)
            for block in idle:
                if wanted > 0 and self._clock - block.freed_at >= average:
                    wanted -= block.size
                    self._give_back(block)


# ---------------------------------------------------------------- expandable segments
# PyTorch's allocator with `expandable_segments:True`: one segment per pool, to which pages are mapped as it grows.
#
# Pages are 2 MiB in the small pool and 20 MiB in the large one. The segment's address space is unlimited, so a request that does
# not fit a free block is placed at the end, together with any free space there. No memory is lost to segments of the wrong size.

_ENDLESS = 2**60


def make_allocator(settings: TorchSettings, limit_bytes: float = float("inf")) -> CachingAllocator:
    """Return the allocator for these settings on a device with this much memory."""
    kind = ExpandableAllocator if settings.expandable_segments else CachingAllocator
    return kind(settings, limit_bytes)


class ExpandableAllocator(CachingAllocator):
    """The same rules, except for the source of new memory. An unmapped block has addresses but no memory."""

    def __init__(self, settings: TorchSettings | None = None, limit_bytes: float = float("inf")) -> None:
        super().__init__(settings or TorchSettings(expandable_segments=True), limit_bytes)
        self._unmapped: dict[bool, list[tuple[int, Block]]] = {}
        for pool in self.pools:
            end = Block(0, _ENDLESS, pool)
            end.mapped = False
            self._unmapped[pool.small] = [(0, end)]

    def worth_splitting(self, block: Block, size: int) -> bool:
        return block.size - size >= ROUNDED_TO

    def new(self, pool: Pool, size: int) -> Block | None:
        """Map the missing pages at the first place where that makes enough room."""
        block = self._start(pool, size)
        if block.mapped:
            pool.remove(block)
        else:
            found = self._map(block, size)
            if found is None:
                return None
            block = found
        while block.size < size:
            after = block.next
            assert after is not None  # noqa: S101 - the last block has no end
            if after.mapped:
                pool.remove(after)
            else:
                found = self._map(after, size - block.size)
                if found is None:
                    pool.add(block)
                    return None
                after = found
            block = merged(block, after)
        after = block.next
        if after is not None and after.free and after.mapped:
            pool.remove(after)
            block = merged(block, after)
        return block

    def _start(self, pool: Pool, size: int) -> Block:
        """Return the first unmapped pages, including a free block before them, that have room for the request."""
        for _, hole in self._unmapped[pool.small]:
            before = hole.previous
            start = before if before is not None and before.free and before.mapped else hole
            room, at = 0, start
            while room < size and at.free:
                room += at.size
                if at.next is None:
                    break
                at = at.next
            if room >= size:
                return start
        raise AssertionError("the last segment has no upper limit")

    def _map(self, hole: Block, size: int) -> Block | None:
        """Map memory to the beginning of a hole, in whole pages."""
        page = _page(hole.pool)
        taken = min(-(-size // page) * page, hole.size)
        if not self.take(taken):
            return None
        holes = self._unmapped[hole.pool.small]
        holes.remove((hole.place, hole))
        if taken < hole.size:
            rest = Block(hole.place + taken, hole.size - taken, hole.pool)
            rest.mapped = False
            hole.size = taken
            insert_after(hole, rest)
            insort(holes, (rest.place, rest), key=lambda entry: entry[0])
        hole.mapped = True
        return hole

    def empty_cache(self) -> None:
        """Unmap every completely free page."""
        for pool in self.pools:
            for _, _, block in list(pool.blocks):
                self._unmap(block)

    def _unmap(self, block: Block) -> None:
        pool, page = block.pool, _page(block.pool)
        first, last = -(-block.place // page) * page, (block.place + block.size) // page * page
        if last <= first:
            return
        pool.remove(block)
        if first > block.place:
            rest = Block(first, block.size - (first - block.place), pool)
            rest.freed_at, block.size = block.freed_at, first - block.place
            insert_after(block, rest)
            pool.add(block)
            block = rest
        if block.place + block.size > last:
            rest = Block(last, block.place + block.size - last, pool)
            rest.freed_at, block.size = block.freed_at, last - first
            insert_after(block, rest)
            pool.add(rest)
        block.mapped = False
        self.reserved -= block.size
        self._keep_hole(block)

    def _keep_hole(self, hole: Block) -> None:
        """Merge neighbouring holes into one."""
        holes = self._unmapped[hole.pool.small]
        after, before = hole.next, hole.previous
        if after is not None and not after.mapped:
            holes.remove((after.place, after))
            hole = merged(hole, after)
        if before is not None and not before.mapped:
            holes.remove((before.place, before))
            hole = merged(before, hole)
        insort(holes, (hole.place, hole), key=lambda entry: entry[0])


def _page(pool: Pool) -> int:
    return SMALL_SEGMENT if pool.small else LARGE_SEGMENT
