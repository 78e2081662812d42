"""PyTorch's allocator with `expandable_segments:True`: one segment a pool, to which pages are mapped as it grows.

Pages are 2 MiB in the small pool and 20 MiB in the large one. The segment's address space has no end, so that what does not fit a
free block is put at the end, together with what is free there; nothing is lost to segments of the wrong size.
"""

from __future__ import annotations

from bisect import insort

from gpuwise.step.memory.allocator import (
    LARGE_SEGMENT,
    ROUNDED_TO,
    SMALL_SEGMENT,
    Block,
    CachingAllocator,
    Pool,
    TorchSettings,
    insert_after,
    merged,
)

__all__ = ["ExpandableAllocator", "make_allocator"]

_ENDLESS = 2**60


def make_allocator(settings: TorchSettings, limit_bytes: float = float("inf")) -> CachingAllocator:
    """The allocator of these settings on a device with so much memory for it."""
    kind = ExpandableAllocator if settings.expandable_segments else CachingAllocator
    return kind(settings, limit_bytes)


class ExpandableAllocator(CachingAllocator):
    """The same rules, but for where new memory comes from. A block that is not mapped has addresses and no memory."""

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
        """Map what is missing at the first place where it would make enough room."""
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
            assert after is not None  # noqa: S101 - the end is endless
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
        """The first unmapped pages, with a free block before them, that have room for the request."""
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
        raise AssertionError("the end is endless")

    def _map(self, hole: Block, size: int) -> Block | None:
        """Put memory behind the beginning of a hole: whole pages."""
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
        """Unmap every page that is wholly free."""
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
        """Neighbouring holes are one."""
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
