"""Simulates the allocator of TensorFlow and JAX: best fit with coalescing, in regions that double in size or in one initial
region.

The rules come from TensorFlow's `bfc_allocator.cc` and its guide "Limiting GPU memory growth", and from JAX's "GPU memory
allocation". Sizes are rounded to 256 bytes. A chunk is split if it is at least twice the request or 128 MiB larger. With growth,
the first region is 2 MiB and each further one is twice as large. Without growth, one region is reserved at the start: all device
memory except a reserve (TensorFlow) or 75% (JAX). Regions are never released.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.step.memory.allocator import MIB, Block, OutOfMemory, Pool, insert_after, joined

__all__ = ["BfcAllocator", "BfcSettings"]

_ROUNDED_TO = 256
_FIRST_REGION = 2 * MIB
_MOST_LOST = 128 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class BfcSettings:
    """`framework` is tensorflow or jax. With `growth`, regions are reserved as needed (`set_memory_growth`,
    `XLA_PYTHON_CLIENT_PREALLOCATE=false`); without it, the first region has the framework's default size.
    """

    framework: str = "tensorflow"
    growth: bool = False
    fraction: float | None = None


class BfcAllocator:
    """Takes requests and frees in order, like `CachingAllocator`. `first_bytes` is reserved at the start; 0 means growth."""

    def __init__(self, first_bytes: float = 0, limit_bytes: float = float("inf")) -> None:
        self.limit = limit_bytes
        self.allocated = self.reserved = self.peak_allocated = self.peak_reserved = 0
        self._pool = Pool(False)
        self._next_place = 0
        self._region = _rounded(first_bytes) if first_bytes else _FIRST_REGION
        if first_bytes:
            self._extend(0)

    def allocate(self, size: float) -> Block:
        rounded = _rounded(size)
        block = self._pool.best(rounded)
        if block is None:
            self._extend(rounded)
            block = self._pool.best(rounded)
        if block is None:
            raise OutOfMemory(f"{rounded:,} bytes requested, but {self.allocated:,} of {self.limit:,.0f} are in use")
        self._pool.remove(block)
        if block.size >= 2 * rounded or block.size - rounded >= _MOST_LOST:
            rest = Block(block.place + rounded, block.size - rounded, self._pool)
            block.size = rounded
            insert_after(block, rest)
            self._pool.add(rest)
        block.free = False
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return block

    def release(self, block: Block) -> None:
        self.allocated -= block.size
        block.free = True
        self._pool.add(joined(block))

    def _extend(self, size: int) -> None:
        """Add a region: the next size in the doubling series, the first size that holds the request, or all remaining memory."""
        grown = size > self._region
        while size > self._region:
            self._region *= 2
        left = int((self.limit - self.reserved) // _ROUNDED_TO * _ROUNDED_TO) if self.limit != float("inf") else self._region
        taken = min(self._region, left)
        if taken < max(size, 1):
            return
        self.reserved += taken
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        self._pool.add(Block(self._next_place, taken, self._pool))
        self._next_place += taken
        if not grown:
            self._region *= 2


def _rounded(size: float) -> int:
    return max(_ROUNDED_TO, -(-int(size) // _ROUNDED_TO) * _ROUNDED_TO)
