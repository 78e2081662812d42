"""Replays the births and deaths of a step's buffers through an allocator until nothing new is reserved.

The order is that of a program: weights first; then steps, in the first of which the optimizer makes its state at its end. The
second step meets the blocks that the first left behind. A training loop takes the next inputs before it lets go of the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpuwise.step.memory.allocator import Block
from gpuwise.step.memory.lifetimes import Lives, first_update
from gpuwise.step.types import Array
from gpuwise.workload.model.types import CATEGORIES

__all__ = ["Allocator", "Replayed", "replay"]

_WEIGHT, _OPTIMIZER, _INPUT = (CATEGORIES.index(name) for name in ("weight", "optimizer", "input"))
_STEPS = 2


class Allocator(Protocol):
    """What a replay needs of an allocator."""

    peak_allocated: int
    peak_reserved: int
    reserved: int

    def allocate(self, size: float) -> Block: ...

    def release(self, block: Block) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The peaks of a program's first steps, as the allocator counts: whole blocks."""

    allocated_bytes: float
    reserved_bytes: float


def replay(lives: Lives, tensor_bytes: Array, allocator: Allocator, held: tuple[float, ...] = ()) -> Replayed:
    """Run the steps. `held` are buffers that libraries keep from their first use on."""
    sizes = tensor_bytes[lives.tensor]
    lasting = (lives.born == 0) & (lives.died >= lives.calls)
    weights, states = (lasting & (lives.category == which) for which in (_WEIGHT, _OPTIMIZER))
    inputs = lasting & (lives.category == _INPUT)
    events = _events(lives, ~(weights | states | inputs), sizes)
    blocks: dict[int, Block] = {}
    for number in np.flatnonzero(weights).tolist():
        blocks[number] = allocator.allocate(sizes[number])
    for size in held:
        allocator.allocate(size)
    update = first_update(lives)
    old: list[Block] = []
    for step in range(_STEPS):
        fresh = [allocator.allocate(size) for size in sizes[inputs].tolist()] if step == 0 or lives.trains else old
        if fresh is not old:
            for block in old:
                allocator.release(block)
        old = fresh
        pending = [] if step else sizes[states].tolist()
        _run(events, allocator, blocks, update, pending)
    return Replayed(allocated_bytes=float(allocator.peak_allocated), reserved_bytes=float(allocator.peak_reserved))


def _events(lives: Lives, passing: Array, sizes: Array) -> list[tuple[int, int, float]]:
    """(call, buffer, size) in the order of the program: deaths, of size -1, before births."""
    rows = np.flatnonzero(passing & (lives.born < lives.died))
    call = np.concatenate([lives.died[rows], lives.born[rows]])
    who = np.concatenate([rows, rows])
    size = np.concatenate([np.full(len(rows), -1.0), sizes[rows]])
    order = np.argsort(call, kind="stable")
    return list(zip(call[order].tolist(), who[order].tolist(), size[order].tolist(), strict=True))


def _run(
    events: list[tuple[int, int, float]], allocator: Allocator, blocks: dict[int, Block], update: int, pending: list[float]
) -> None:
    allocate, release = allocator.allocate, allocator.release
    for call, who, size in events:
        if pending and call >= update:
            for state in pending:
                allocate(state)
            pending = []
        if size < 0:
            release(blocks.pop(who))
        else:
            blocks[who] = allocate(size)
    for state in pending:
        allocate(state)
