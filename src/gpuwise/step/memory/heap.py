"""Simulates the heap of the GNU C library, which tensors on a CPU come from: how much memory of a step is fresh from the system.

The rules come from glibc's `malloc.c` and the page `mallopt(3)`. A request takes the smallest free block that is large enough, or
the end of the heap, which grows if necessary. If the heap has no room, a request above a threshold is mapped on its own instead.
A mapped block that is freed raises the threshold to its own size, up to 32 MiB. If more than twice the threshold is free at the
end of the heap, it goes back to the system. The system clears every page of fresh memory on its first use.
"""

from __future__ import annotations

import numpy as np

from gpuwise.step.memory.allocator import MIB, Block, Pool, insert_after, joined
from gpuwise.step.memory.lifetimes import Lives, first_update, lives_of, tensor_bytes_of
from gpuwise.workload.model.types import CATEGORIES, Workload

__all__ = ["Heap", "fresh_bytes"]

_ROUNDED_TO, _HEADER = 64, 64  # tensors start at multiples of 64 bytes
_FIRST_THRESHOLD = MIB  # 128 KiB by default, but importing torch frees a mapped block of about 1 MiB
_LARGEST_THRESHOLD = 32 * MIB
_PAD = 128 * 2**10  # kept at the end of the heap
_LEAST_TRIMMING = 64 * 2**10  # glibc looks at the end of the heap only after it freed at least this much
_PAGE = 4096
_SMALL = 1024  # smaller blocks have caches of their own
_PINNING_CALLS = 60.0  # fitted to the page faults of thirty small models with glibc 2.36 (benchmarks/small_models.py)
_STEPS, _SETTLING = 10, 4


class Heap:
    """Takes requests and frees in order. `mapped` and `grown` count the fresh bytes of mapped blocks and of the heap's end."""

    def __init__(self) -> None:
        self.mapped = self.grown = 0
        self._threshold, self._trims_at = _FIRST_THRESHOLD, 2 * _FIRST_THRESHOLD
        self._pool, self._apart = Pool(False), Pool(False)
        self._last: Block | None = None  # the block before the end
        self._top = self._end = self._touched = 0

    def allocate(self, size: float) -> Block:
        """Return a block: a free one, one at the end of the heap, or one that is mapped on its own."""
        needed = -(-int(size) // _ROUNDED_TO) * _ROUNDED_TO + _HEADER
        block = self._pool.best(needed)
        if block is not None:
            self._pool.remove(block)
            self._split(block, needed)
        elif self._threshold <= needed and needed > self._end - self._top:
            block = Block(0, -(-needed // _PAGE) * _PAGE, self._apart)
            self.mapped += block.size
        else:
            block = self._at_the_end(needed)
        block.free = False
        return block

    def release(self, block: Block) -> None:
        """Free a block, and return the end of the heap to the system if enough of it is free."""
        block.free = True
        if block.pool is self._apart:
            if self._threshold < block.size <= _LARGEST_THRESHOLD:
                self._threshold, self._trims_at = block.size, 2 * block.size
            return
        block = joined(block)
        if block.next is not None:
            self._pool.add(block)
        else:
            self._top, self._last = block.place, block.previous
            if self._last is not None:
                self._last.next = None
        if self._end - self._top >= self._trims_at and block.size >= _LEAST_TRIMMING:
            self._end = self._top + _PAD
            self._touched = min(self._touched, self._end)

    def _split(self, block: Block, needed: int) -> None:
        if block.size > needed:
            rest = Block(block.place + needed, block.size - needed, self._pool)
            block.size = needed
            insert_after(block, rest)
            self._pool.add(rest)

    def _at_the_end(self, needed: int) -> Block:
        block = Block(self._top, needed, self._pool)
        self._top += needed
        if self._top > self._end:
            self._end = self._top + _PAD
        self.grown += max(self._top - self._touched, 0)
        self._touched = max(self._top, self._touched)
        block.previous = self._last
        if self._last is not None:
            self._last.next = block
        self._last = block
        return block


def fresh_bytes(workload: Workload, batch: float | None = None, seq: float | None = None) -> float:
    """Return the bytes that a step gets from the system, on average over several steps.

    Small objects that survive at the end of the heap keep it from being returned. The more calls a step has, the more often that
    happens, so a part of the growth that shrinks with their number counts.
    """
    lives, heap = lives_of(workload), Heap()
    program = _Program(lives, np.maximum(tensor_bytes_of(workload, batch, seq), 0.0)[lives.tensor])
    for number in range(_STEPS):
        if number == _SETTLING:
            heap.mapped = heap.grown = 0
        program.step(heap, number == 0)
    pinned = 1.0 + (first_update(lives) / _PINNING_CALLS) ** 2
    return (heap.mapped + heap.grown / pinned) / (_STEPS - _SETTLING)


class _Program:
    """The requests of a training loop on a CPU, where optimizers update one tensor after another."""

    def __init__(self, lives: Lives, sizes: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
        self._sizes = sizes
        self._blocks: dict[int, Block] = {}
        large = sizes >= _SMALL
        weight, state, given = (
            lives.lasting & large & (lives.category == CATEGORIES.index(name)) for name in ("weight", "optimizer", "input")
        )
        passing = large & ~(weight | state | given) & (lives.born < lives.died)
        update = first_update(lives)
        rows = np.flatnonzero(passing & (lives.born < update))
        when = np.concatenate([lives.died[rows], lives.born[rows]])  # frees come before requests
        order = np.argsort(when, kind="stable")
        events = np.concatenate([~rows, rows])[order]
        middle = int(np.searchsorted(when[order], update))
        self._passes, self._end = events[:middle].tolist(), events[middle:].tolist()
        self._lasting, self._states = np.flatnonzero(weight | given).tolist(), np.flatnonzero(state).tolist()
        updates = bool(np.any(passing & (lives.born >= update)))  # an optimizer that computes with tensors of its own
        self._updated = np.flatnonzero(weight).tolist() if updates else []

    def step(self, heap: Heap, first: bool) -> None:
        """Run one step. The first one begins with the weights, and creates the optimizer's states at its end."""
        if first:
            self._take(heap, self._lasting)
        self._run(heap, self._passes)
        if first:
            self._take(heap, self._states)
        for row in self._updated:
            for block in self._take(heap, [row, row]):
                heap.release(block)
        self._run(heap, self._end)

    def _take(self, heap: Heap, rows: list[int]) -> list[Block]:
        return [heap.allocate(self._sizes[row]) for row in rows]

    def _run(self, heap: Heap, events: list[int]) -> None:
        for event in events:
            if event < 0:
                heap.release(self._blocks.pop(~event))
            else:
                self._blocks[event] = heap.allocate(self._sizes[event])
