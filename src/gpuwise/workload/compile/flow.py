"""The data flow of a step: which call writes each value and which calls read it. A buffer written twice, as by in-place ops,
holds two values.

Reads can be edited: recomputation changes what the backward pass reads.
"""

from __future__ import annotations

from copy import copy

from gpuwise.workload.compile.roles import Loop
from gpuwise.workload.model.types import CATEGORIES, Workload

__all__ = ["Flow"]

_LASTING = frozenset(CATEGORIES.index(name) for name in ("weight", "gradient", "optimizer", "input"))
_WEIGHT = CATEGORIES.index("weight")


class Flow:
    """The values of a step. Value `v` is in `buffer[v]`, is written by call `writer[v]` (-1: before the step) and read by
    `readers[v]`.

    `read_values[i]` and `read_tensors[i]` are what call `i` reads, in matching order; `written_values[i]` is what it writes.
    `segment[i]` numbers the graph that call `i` belongs to: a compiler creates one for each forward pass, backward pass and
    optimizer step. `before[i]` and `after[i]` are the calls of that graph that must come before and after call `i`.
    """

    def __init__(self, workload: Workload, loops: list[Loop]) -> None:
        self.workload = workload
        self.loops: list[Loop] = [loops[op] for op in workload.calls.op.tolist()]
        self.buffer: list[int] = []
        self.writer: list[int] = []
        self.readers: list[list[int]] = []
        self.replaced: list[int] = []  # the call that overwrites the value, or the number of calls
        self.borrowed: set[int] = set()  # rows of a table, recorded as the buffer that the call itself fills
        self.read_values: list[list[int]] = []
        self.read_tensors: list[list[int]] = []
        self.written_values: list[list[int]] = []
        self.edited: set[int] = set()  # calls whose reads are no longer as recorded
        self.before: list[set[int]] = []
        self.after: list[set[int]] = [set() for _ in self.loops]
        self.segment = _segments(workload.calls.phase.tolist())
        self._follow()
        self.lasting = self._lasting()

    def _follow(self) -> None:
        ops, end = self.workload.ops, len(self.workload.calls)
        buffer_of, writer_of, readers_of, replaced = self.buffer, self.writer, self.readers, self.replaced
        current: dict[int, int] = {}  # buffer -> its current value
        start = 0  # the first call of the current graph

        def new(buffer: int, writer: int) -> int:
            value = current[buffer] = len(buffer_of)
            buffer_of.append(buffer)
            writer_of.append(writer)
            readers_of.append([])
            replaced.append(end)
            return value

        for index, call in enumerate(self.workload.calls):
            # A constant op only uses the shape of what it "reads".
            reads, tensors = ((), ()) if self.loops[index].constant else (call.reads, ops[call.op].reads)
            values = [current[buffer] if buffer in current else new(buffer, -1) for buffer in reads]
            before = {writer_of[value] for value in values}
            for value in values:
                readers = readers_of[value]
                if not readers or readers[-1] != index:
                    readers.append(index)
            for buffer in call.writes:
                if buffer in current:
                    self._overwrite(current[buffer], index, before)
            self.read_values.append(values)
            self.read_tensors.append(list(tensors))
            self.written_values.append([new(buffer, index) for buffer in call.writes])
            start = start if self.segment[index] == self.segment[start] else index
            self.before.append({earlier for earlier in before if start <= earlier < index})
            for earlier in self.before[index]:
                self.after[earlier].add(index)

    def _overwrite(self, value: int, call: int, before: set[int]) -> None:
        """Record that a call overwrites a value, so it comes after the calls that wrote and read it."""
        writer, readers = self.writer[value], self.readers[value]
        before.add(writer)
        before.update(readers)
        self.replaced[value] = call
        if writer < 0 and readers == [call] and self.workload.buffers[self.buffer[value]].category not in _LASTING:
            self.borrowed.add(value)

    def _lasting(self) -> list[bool]:
        """Return the buffers whose last value is needed after the step.

        This excludes weights cast by autocast, because compiled code does not cache them, and buffers freed with the last call,
        which reads them.
        """
        calls, ops, buffers = self.workload.calls, self.workload.ops, self.workload.buffers
        lasting = [buffer.died >= len(calls) for buffer in buffers]
        passing: set[int] = {*calls[-1].reads} - {*calls[-1].writes} if calls else set()
        for call in calls:
            if ops[call.op].kind == "cast" and all(buffers[buffer].category == _WEIGHT for buffer in call.reads):
                passing.update(call.writes)
        for buffer in passing:
            lasting[buffer] = lasting[buffer] and buffers[buffer].category in _LASTING
        return lasting

    def wanted_after(self, value: int) -> bool:
        """Whether the value outlives the step."""
        return self.lasting[self.buffer[value]] and self.replaced[value] == len(self.segment)

    def leaves(self, value: int, segment: int) -> bool:
        """Return whether a value written in this segment is needed after it."""
        readers = self.readers[value]
        return self.wanted_after(value) or (bool(readers) and self.segment[readers[-1]] != segment)

    def copied(self) -> Flow:
        """Return the same flow, whose reads can be edited separately."""
        found = copy(self)
        found.edited = {*self.edited}
        found.read_values, found.read_tensors, found.readers = [*self.read_values], [*self.read_tensors], [*self.readers]
        return found

    def swap_reads(self, call: int, gone: int, values: list[int], tensors: list[int]) -> None:
        """Let a call read these values instead of one that it reads now."""
        pairs = zip(self.read_values[call], self.read_tensors[call], strict=True)
        kept = [(value, tensor) for value, tensor in pairs if value != gone]
        have = {value for value, _ in kept}
        kept += [(value, tensor) for value, tensor in zip(values, tensors, strict=True) if value not in have]
        self.edited.add(call)
        self.read_values[call] = [value for value, _ in kept]
        self.read_tensors[call] = [tensor for _, tensor in kept]
        self.readers[gone] = [reader for reader in self.readers[gone] if reader != call]
        for value in {*values} - have:
            self.readers[value] = sorted({*self.readers[value], call})


def _segments(phases: list[int]) -> list[int]:
    """Number the runs of equal phases."""
    numbers, number = [], 0
    for index, phase in enumerate(phases):
        number += index > 0 and phase != phases[index - 1]
        numbers.append(number)
    return numbers
