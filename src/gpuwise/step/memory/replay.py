"""Replays the allocations and frees of a step's buffers through any allocator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gpuwise.step.memory.allocator import Block
from gpuwise.step.memory.lifetimes import Lives, program_of
from gpuwise.step.types import Array

__all__ = ["Allocator", "Replayed", "replay"]


class Allocator(Protocol):
    """The methods of an allocator that a replay uses."""

    peak_allocated: int
    peak_reserved: int
    reserved: int

    def allocate(self, size: float) -> Block: ...

    def release(self, block: Block) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The peaks over a program's first steps, as the allocator counts them: in whole blocks."""

    allocated_bytes: float
    reserved_bytes: float


def replay(lives: Lives, tensor_bytes: Array, allocator: Allocator, held: tuple[float, ...] = ()) -> Replayed:
    """Run the steps. `held` are buffers that libraries keep from their first use."""
    blocks: dict[int, Block] = {}
    who, sizes = program_of(lives, tensor_bytes)
    for index, (number, size) in enumerate(zip(who.tolist(), sizes.tolist(), strict=True)):
        if index == lives.loaded:
            for kept in held:
                allocator.allocate(kept)
        if size < 0:
            allocator.release(blocks.pop(number))
        else:
            blocks[number] = allocator.allocate(size)
    return Replayed(allocated_bytes=float(allocator.peak_allocated), reserved_bytes=float(allocator.peak_reserved))
