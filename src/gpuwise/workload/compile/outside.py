"""The data that fused kernels move: the tensors that each reads from outside, and the results that others need, as columns.

This is enough to know the memory and the traffic of a fused step, so only the step that is accepted is written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from gpuwise.workload.compile.flow import Flow
from gpuwise.workload.compile.groups import Group
from gpuwise.workload.compile.roles import Sizes
from gpuwise.workload.model.types import CATEGORIES, Buffers, Ints, ints

__all__ = ["Kernels", "Moves", "Outside"]

_THERE_BEFORE = [CATEGORIES.index(name) for name in ("weight", "optimizer", "input")]

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """Tensors that kernels read or write, in launch order, and the buffers they are in."""

    kernel: Ints
    buffer: Ints
    tensor: Ints

    def at(self, rows: Flags | Ints) -> Moves:
        """Return these rows."""
        return Moves(self.kernel[rows], self.buffer[rows], self.tensor[rows])

    def then(self, *others: Moves) -> Moves:
        """Return the rows of both by kernel, with these before the others within each kernel."""
        parts = (self, *others)
        kernel = np.concatenate([part.kernel for part in parts])
        buffer = np.concatenate([part.buffer for part in parts])
        tensor = np.concatenate([part.tensor for part in parts])
        return Moves(kernel, buffer, tensor).at(np.argsort(kernel, kind="stable"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kernels:
    """The kernels of a step in launch order. `recorded` are those that are one call, just as it was recorded; `number` is the new
    row of each buffer (-1: not needed any more).
    """

    groups: list[Group]
    recorded: Flags
    reads: Moves
    writes: Moves
    buffers: Buffers
    number: Ints


class _Values:
    """Values that calls read or write, by call, and the tensors as which they do."""

    def __init__(self, values: Sequence[Sequence[int]], tensors: Sequence[Sequence[int]]) -> None:
        self.value = ints(chain.from_iterable(values))
        self.tensor = ints(chain.from_iterable(tensors))
        self.call = np.repeat(np.arange(len(values)), ints(map(len, values)))


class Outside:
    """Derives the kernels from groups of the calls of one step. Values that do not depend on the groups are computed once."""

    def __init__(self, flow: Flow, sizes: Sizes) -> None:
        calls, buffers, loops = flow.workload.calls, flow.workload.buffers, flow.loops
        self._old, self._call_count = buffers, len(calls)
        self._bytes = np.array(sizes.bytes).reshape(len(sizes.bytes), -1)
        self._buffer, self._writer = ints(flow.buffer), ints(flow.writer)
        self._written = _Values(flow.written_values, [flow.workload.ops[op].writes for op in calls.op.tolist()])
        self._lasting = np.array(flow.lasting, dtype=bool)
        self._wanted = self._lasting[self._buffer] & (ints(flow.replaced) == len(calls))
        self._borrowed = np.zeros(len(self._buffer), dtype=bool)
        self._borrowed[list(flow.borrowed)] = True
        started = np.zeros(len(buffers), dtype=bool)
        started[self._buffer[(self._writer < 0) & ~self._borrowed]] = True
        self._there = np.isin(buffers.category, _THERE_BEFORE) | (started & (buffers.born == 0))
        self._library = np.array([loop.space < 0 for loop in loops])
        constant = np.array([loop.constant for loop in loops]) & (calls.read_count > 0)
        self._altered = constant | np.array([loop.passes > 1 for loop in loops])

    def kernels(self, flow: Flow, groups: list[Group]) -> Kernels:
        """Return the data that these groups move and the buffers still in use. The reads of `flow` may have been edited."""
        lengths = ints(len(group.calls) for group in groups)
        members = ints(chain.from_iterable(group.calls for group in groups))
        ends = np.cumsum(lengths)
        kernel_of = np.empty(self._call_count, dtype=np.int64)
        kernel_of[members] = np.repeat(np.arange(len(groups)), lengths)
        read, written = _Values(flow.read_values, flow.read_tensors), self._written
        by, to = kernel_of[read.call], kernel_of[written.call]
        maker = self._writer[read.value]
        outside = (maker < 0) | (kernel_of[maker] != by)
        needed = self._wanted.copy()
        needed[read.value[outside]] = True

        recorded = (lengths == 1) & self._unchanged(flow, needed)[members[ends - 1]]
        borrowed = self._borrowed[read.value]
        # If nothing reads any result of a kernel, a compiler would remove it, but here its last result is kept.
        useful = np.bincount(to, weights=needed[written.value], minlength=len(groups)) > 0
        kept = needed[written.value] | (~useful[to] & (written.call == members[ends - 1][to]))
        whole_reads = Moves(by, self._buffer[read.value], read.tensor)
        whole_writes = Moves(to, self._buffer[written.value], written.tensor)
        alone = recorded[by]
        writes = whole_writes.at(recorded[to]).then(self._once(whole_writes.at(kept & ~recorded[to])))
        lent = whole_reads.at(borrowed & ~alone)
        lent = Moves(lent.kernel, writes.buffer[np.searchsorted(writes.kernel, lent.kernel)], lent.tensor)
        reads = whole_reads.at(alone).then(self._once(whole_reads.at(outside & ~borrowed & ~alone)), lent)
        number, buffers = self._buffers(reads.then(writes), len(groups))
        return Kernels(groups=groups, recorded=recorded, reads=reads, writes=writes, buffers=buffers, number=number)

    def _unchanged(self, flow: Flow, needed: Flags) -> Flags:
        """Return which calls, run alone, can stay as they were recorded."""
        same: Flags = ~self._altered
        same[self._written.call[~needed[self._written.value]]] = False
        same[list(flow.edited)] = False
        same[self._library] = True
        return same

    def _once(self, moves: Moves) -> Moves:
        """A kernel moves each buffer once: parts of it add up, but to no more than the whole."""
        moves = moves.then()
        key = moves.kernel * len(self._old) + moves.buffer
        _, first, row, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
        whole, total = self._old.tensor[moves.buffer], np.zeros((len(first), self._bytes.shape[1]))
        np.add.at(total, row, self._bytes[moves.tensor])
        in_parts: Flags = np.all(total <= self._bytes[whole[first]], axis=1)
        in_parts[row[moves.tensor == whole]] = False
        apart = (in_parts | (count == 1))[row]
        order = np.argsort(first[row], kind="stable")
        tensor = np.where(apart, moves.tensor, whole)
        kept = apart | (first[row] == np.arange(len(row)))
        return Moves(moves.kernel, moves.buffer, tensor).at(order[kept[order]])

    def _buffers(self, moves: Moves, kernel_count: int) -> tuple[Ints, Buffers]:
        """Return the buffers still in use, live from their first kernel to their last, and the new number of each."""
        first, last = (np.full(len(self._old), -1) for _ in range(2))
        first[moves.buffer[::-1]], last[moves.buffer] = moves.kernel[::-1], moves.kernel
        kept = (first >= 0) | (self._there & self._lasting)
        born = np.where(self._there, 0, first)
        died = np.where(self._lasting, kernel_count, np.where(first >= 0, last, born) + 1)
        number = np.where(kept, np.cumsum(kept) - 1, -1)
        columns = (column[kept] for column in (self._old.tensor, self._old.category, born, died))
        tensor, category, born, died = columns
        return number, Buffers(tensor=tensor, category=category, born=born, died=died)
