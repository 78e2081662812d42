"""Decides which calls share a kernel: a greedy model of TorchInductor's scheduler, in one walk over the calls of a graph.

A call first joins the groups that produced what it reads (vertical fusion, starting with the group sharing the most bytes), or
else a group that reads the same values (horizontal fusion). Each group has a place in the order of kernels, after everything it
needs and before everything that needs it. Two groups merge only if such a place exists, so no cycle arises.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Container, Set
from dataclasses import dataclass

from gpuwise.workload.compile.flow import Flow
from gpuwise.workload.compile.roles import Sizes

__all__ = ["Group", "Grouper"]

# torch/_inductor/config.py and scheduler.py (are_long_distant_nodes), torch 2.13.
_MAX_FUSION_SIZE = 64
_REALIZE_ACC_READS = 8
_SCORE_BYTES = 10
_FARTHEST = 64
_RECENT_READERS = 4


@dataclass(slots=True)
class Group:
    """Calls that run as one kernel, at `place` in the order of kernels."""

    calls: list[int]
    place: float
    space: int
    rows: int
    column: bool
    foreach: bool
    before: Set[int]
    after: Set[int]
    inlined: bool = False  # computed entirely within a column reduction
    library: bool = False  # a matrix product with its epilogue


_LATER = Group([], math.inf, -1, -1, False, False, frozenset(), frozenset())  # stands for calls not yet grouped


class Grouper:
    """Groups the calls of a workload, segment by segment. `apart` are calls that must not be fused."""

    def __init__(self, flow: Flow, sizes: Sizes, *, epilogues: bool, apart: Container[int]) -> None:
        self._flow, self._sizes, self._epilogues, self._apart = flow, sizes, epilogues, apart
        self._start = 0
        self.group_of: list[Group] = []

    def walk(self, start: int, end: int) -> None:
        """Group the calls of one segment, `start <= i < end`; the earlier segments are already grouped."""
        self._start = start
        self.group_of.extend([_LATER] * (end - start))
        flow, apart, inlined = self._flow, self._apart, self._inlined(start, end)
        for call in range(start, end):
            loop = flow.loops[call]
            alone = loop.space < 0 or call in apart
            library = alone and self._epilogues and loop.output >= 0 and call not in apart
            space, edges = loop.output if library else loop.space, (flow.before[call], flow.after[call])
            group = Group([call], call, space, loop.rows, loop.column, loop.foreach, *edges, call in inlined, library)
            self.group_of[call] = group
            if alone:
                continue
            if not loop.gather:
                self._join_makers(call)
            if len(self.group_of[call].calls) == 1:
                self._join_sharers(call)

    def _inlined(self, start: int, end: int) -> set[int]:
        """Return loops whose result is read only by a column reduction: they are computed inside it, neither stored nor
        shared.
        """
        flow, found = self._flow, set[int]()
        readers = [call for call in range(start, end) if flow.loops[call].column and call not in self._apart]
        while readers:
            reader = readers.pop()
            makers = {flow.writer[value] for value in flow.read_values[reader] if flow.writer[value] >= start}
            fresh = [call for call in makers - found if self._is_inlined(call, reader)]
            found.update(fresh)
            readers += fresh
        return found

    def _is_inlined(self, call: int, reader: int) -> bool:
        """Return whether a call is a loop whose results only this reader needs."""
        flow, loop = self._flow, self._flow.loops[call]
        if loop.space < 0 or loop.rows >= 0 or loop.foreach or call in self._apart:
            return False
        return all(
            flow.readers[value] in ([], [reader]) and not flow.leaves(value, flow.segment[call])
            for value in flow.written_values[call]
        )

    # ------------------------------------------------------------ vertical

    def _join_makers(self, call: int) -> None:
        flow = self._flow
        makers: dict[int, float] = {}
        for value, tensor in zip(flow.read_values[call], flow.read_tensors[call], strict=True):
            writer = flow.writer[value]
            if writer >= self._start:
                lead = self.group_of[writer].calls[0]
                makers[lead] = makers.get(lead, 0.0) + self._sizes.bytes[tensor][0]
        for lead in sorted(makers, key=lambda lead: (-makers[lead], -lead)) if len(makers) > 1 else makers:
            maker, user = self.group_of[lead], self.group_of[call]
            if maker is not user and self._below(maker, user):
                self._merge(maker, user)

    def _below(self, maker: Group, user: Group) -> bool:
        """Return whether the call that uses a group's values can run inside it."""
        if maker.foreach or user.foreach:
            return maker.foreach and user.foreach and maker.space == user.space
        if maker.space < 0 or len(maker.calls) + len(user.calls) > _MAX_FUSION_SIZE:
            return False
        if maker.library or user.library:
            return maker.library and not user.library and user.rows < 0 and user.space == maker.space
        if maker.inlined or (user.column and maker.rows < 0):
            return (user.inlined or user.column) and self._only_feeds(maker, user)
        if user.inlined:
            return False
        if maker.space == user.space and not maker.column and not user.column:
            return maker.rows < 0 or user.rows < 0 or maker.rows == user.rows
        if maker.rows >= 0 and maker.rows == user.space:
            return user.rows < 0
        return maker.rows < 0 and self._only_feeds(maker, user)

    def _only_feeds(self, maker: Group, user: Group) -> bool:
        """Return whether a group is needed nowhere else and has few enough reads to be computed where it is used."""
        flow, inside = self._flow, {*maker.calls, *user.calls}
        reads: set[int] = set()
        for call in maker.calls:
            reads.update(value for value in flow.read_values[call] if flow.writer[value] not in inside)
            for value in flow.written_values[call]:
                if flow.leaves(value, flow.segment[call]) or any(reader not in inside for reader in flow.readers[value]):
                    return False
        return len(reads) <= _REALIZE_ACC_READS

    # ------------------------------------------------------------ horizontal

    def _join_sharers(self, call: int) -> None:
        flow, group = self._flow, self.group_of[call]
        if group.inlined or group.foreach:
            return
        for value, tensor in zip(flow.read_values[call], flow.read_tensors[call], strict=True):
            if self._sizes.bytes[tensor][0] < _SCORE_BYTES:
                continue
            readers = flow.readers[value]
            here = bisect_left(readers, call)
            for reader in reversed(readers[max(0, here - _RECENT_READERS) : here]):
                other = self.group_of[reader]
                if (
                    reader >= self._start
                    and other is not group
                    and self._beside(other, group, call)
                    and self._merge(other, group, beside=True)
                ):
                    return

    def _beside(self, other: Group, group: Group, call: int) -> bool:
        """Return whether two groups that read the same value can share a kernel: the same loops, close together."""
        if other.inlined or other.library or other.foreach or other.space != group.space or other.column != group.column:
            return False
        if other.rows >= 0 and group.rows >= 0 and other.rows != group.rows:
            return False
        return call - min(other.calls) <= _FARTHEST and len(other.calls) + len(group.calls) <= _MAX_FUSION_SIZE

    # ------------------------------------------------------------ merging

    def _merge(self, first: Group, second: Group, *, beside: bool = False) -> bool:
        """Merge two groups, if there is a place for the result in the order; side-by-side groups merge only at the first one's
        place.
        """
        place = self._place(first, second)
        if place is None or (beside and place != first.place):
            return False
        calls = first.calls + second.calls
        inside = {*calls}
        if first.rows < 0:
            first.space, first.rows, first.column = second.space, second.rows, second.column
        first.calls = sorted(calls)
        first.place = place
        first.before = (first.before | second.before) - inside
        first.after = (first.after | second.after) - inside
        first.inlined = first.inlined and second.inlined
        for call in second.calls:
            self.group_of[call] = first
        return True

    def _place(self, first: Group, second: Group) -> float | None:
        """Return where the two can run together: after everything that either needs, before everything that needs either."""
        lowest, highest = self._start - 1.0, float(len(self._flow.segment))
        for group in (first, second):
            for call in group.before:
                other = self.group_of[call]
                if other is not first and other is not second and other.place > lowest:
                    lowest = other.place
            for call in group.after:
                other = self.group_of[call]
                if other is not first and other is not second and other.place < highest:
                    highest = other.place
        for place in (first.place, second.place):
            if lowest < place < highest:
                return place
        middle = (lowest + min(highest, lowest + 1.0)) / 2
        return middle if lowest < middle < highest else None
