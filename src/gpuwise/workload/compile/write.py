"""Writes the workload of fused calls: their ops, what they still read and write, and the remaining buffers."""

from __future__ import annotations

from dataclasses import replace

from gpuwise.kernels.registry import KINDS
from gpuwise.kernels.types import Fusion
from gpuwise.workload.compile.flow import Flow
from gpuwise.workload.compile.groups import Group
from gpuwise.workload.compile.roles import Sizes
from gpuwise.workload.model.types import CATEGORIES, AttrValue, Buffer, Buffers, Call, Calls, Op, Workload, ints

__all__ = ["in_order", "written"]

_THERE_BEFORE = frozenset(CATEGORIES.index(name) for name in ("weight", "optimizer", "input"))
# The kind of work whose model a fused kernel uses: the most expensive one in it. Anything else is a loop over elements.
_RANK = {role: rank for rank, role in enumerate(Fusion)}
_LAST = _RANK[Fusion.LIST]
_MAY_LOOP = (Fusion.NORM, Fusion.ROWS, Fusion.LOSS)
_ALIKE = (Fusion.LOOP, Fusion.COPY, Fusion.RANDOM)  # several of one kind count as one more of it
_SHOWN_NAMES = 6
_COMBO_ARGUMENTS = 250  # combo_kernel_max_num_args: how many tensors one kernel over a list can take

Refs = dict[int, list[int]]  # buffer -> the tensors as which it is read or written


def in_order(flow: Flow, group_of: list[Group]) -> list[Group]:
    """Return the groups in launch order."""
    distinct = {id(group): group for group in group_of}.values()
    return sorted(distinct, key=lambda group: (flow.segment[group.calls[0]], group.place))


def written(flow: Flow, sizes: Sizes, groups: list[Group]) -> Workload:
    """Return the workload whose calls are these groups."""
    return _Writer(flow, sizes, groups).workload()


class _Writer:
    def __init__(self, flow: Flow, sizes: Sizes, groups: list[Group]) -> None:
        self._flow, self._sizes, self._groups = flow, sizes, groups
        self._old = flow.workload
        self._rows: dict[tuple[object, ...], int] = {}
        self._kept: dict[int, int] = {}  # old op -> its row here
        self._ops: list[Op] = []

    def workload(self) -> Workload:
        calls = [self._call(group) for group in self._groups]
        number, buffers = self._buffers(calls)
        moved = Calls.of(calls)
        moved = replace(moved, refs=ints(number[buffer] for buffer in moved.refs.tolist()))
        return replace(self._old, ops=tuple(self._ops), calls=moved, buffers=Buffers.of(buffers))

    # ------------------------------------------------------------ calls

    def _call(self, group: Group) -> Call:
        old = self._old.calls[group.calls[0]]
        if len(group.calls) == 1 and self._unchanged(group.calls[0]):
            if old.op not in self._kept:
                self._kept[old.op] = self._row(self._old.ops[old.op])
            return Call(self._kept[old.op], old.phase, old.module, old.reads, old.writes)
        reads, writes = self._outside(group)
        anchor = min(group.calls, key=lambda call: (len(_RANK) if self._is_loop(call) else _RANK[self._role_of(call)], call))
        op = self._fused_op(group, anchor, reads, writes)
        read_buffers = tuple([buffer for buffer, tensors in reads.items() for _ in tensors])
        written_buffers = tuple([buffer for buffer, tensors in writes.items() for _ in tensors])
        return Call(self._row(op), old.phase, self._old.calls[anchor].module, read_buffers, written_buffers)

    def _op_of(self, call: int) -> Op:
        return self._old.ops[self._old.calls[call].op]

    def _role_of(self, call: int) -> Fusion:
        return KINDS[self._op_of(call).kind].fusion

    def _unchanged(self, call: int) -> bool:
        """Return whether a call can stay as it was recorded."""
        flow, loop = self._flow, self._flow.loops[call]
        if loop.space < 0:
            return True
        if loop.passes > 1 or not all(self._needed(value, call, {call}) for value in flow.written_values[call]):
            return False
        buffers = tuple([flow.buffer[value] for value in flow.read_values[call]])
        return buffers == self._old.calls[call].reads and tuple(flow.read_tensors[call]) == self._op_of(call).reads

    def _outside(self, group: Group) -> tuple[Refs, Refs]:
        """Return what a group reads from outside, and which of its results others need."""
        flow, inside = self._flow, {*group.calls}
        reads: Refs = {}
        writes: Refs = {}
        borrowed: list[int] = []
        for call in group.calls:
            for value, tensor in zip(flow.read_values[call], flow.read_tensors[call], strict=True):
                if value in flow.borrowed:
                    borrowed.append(tensor)
                elif flow.writer[value] not in inside:
                    reads.setdefault(flow.buffer[value], []).append(tensor)
            for value, tensor in zip(flow.written_values[call], self._op_of(call).writes, strict=True):
                if self._needed(value, call, inside):
                    writes.setdefault(flow.buffer[value], []).append(tensor)
        if not writes:  # nothing reads any of it: a compiler would remove it, but here the last result is kept
            last = group.calls[-1]
            results = zip(flow.written_values[last], self._op_of(last).writes, strict=True)
            writes = {flow.buffer[value]: [tensor] for value, tensor in results}
        reads = {buffer: self._once(buffer, tensors) for buffer, tensors in reads.items()}
        writes = {buffer: self._once(buffer, tensors) for buffer, tensors in writes.items()}
        if borrowed:
            reads.setdefault(next(iter(writes)), []).extend(borrowed)
        return reads, writes

    def _needed(self, value: int, call: int, inside: set[int]) -> bool:
        """Return whether a value is read by another kernel or outlives its graph."""
        flow = self._flow
        return flow.leaves(value, flow.segment[call]) or not inside.issuperset(flow.readers[value])

    def _once(self, buffer: int, tensors: list[int]) -> list[int]:
        """A kernel moves each buffer once: parts of it add up, but to no more than the whole."""
        if len(tensors) == 1:
            return tensors
        whole = self._old.buffers[buffer].tensor
        if whole in tensors:
            return [whole]
        return tensors if self._sizes.fit(tensors, [whole]) else [whole]

    # ------------------------------------------------------------ ops

    def _is_loop(self, call: int) -> bool:
        """Return whether a call is an ordinary elementwise loop; batch norm at inference is one too."""
        role = self._role_of(call)
        return _RANK[role] > _LAST or (role in _MAY_LOOP and self._flow.loops[call].rows < 0)

    def _fused_op(self, group: Group, anchor: int, reads: Refs, writes: Refs) -> Op:
        old = self._op_of(anchor)
        members = [self._op_of(call) for call in group.calls]
        kind, sizes, dtype = old.kind, old.sizes, old.dtype
        attrs: dict[str, AttrValue] = dict(old.attrs)
        if len(members) > 1:
            if self._is_loop(anchor):
                kind, sizes, dtype = self._loop(group, members, writes)
                attrs = {}
            attrs["fused"] = len(members)
        launches = self._launches(group, reads, writes)
        if launches > 1:
            attrs["launches"] = launches
        read_tensors = tuple([tensor for tensors in reads.values() for tensor in tensors])
        written_tensors = tuple([tensor for tensors in writes.values() for tensor in tensors])
        return Op(kind, _name(members), dtype, sizes, attrs, read_tensors, written_tensors)

    def _loop(self, group: Group, members: list[Op], writes: Refs) -> tuple[str, tuple[int, ...], str]:
        """A kernel without reductions: as many elements as its loop has, in the dtype of the largest tensor it writes."""
        kinds = {op.kind for op in members}
        kind = kinds.pop() if len(kinds) == 1 and KINDS[members[0].kind].fusion in _ALIKE else "elementwise"
        lead = next((call for call in group.calls if self._flow.loops[call].space == group.space), group.calls[-1])
        specs, bytes_of = self._old.tensors, self._sizes.bytes
        rows = [specs[tensor].elements for tensor in self._op_of(lead).writes or self._op_of(lead).reads]
        largest = max((tensor for tensors in writes.values() for tensor in tensors), key=lambda tensor: bytes_of[tensor])
        return kind, (max(rows, key=self._sizes.of),), specs[largest].dtype

    def _launches(self, group: Group, reads: Refs, writes: Refs) -> int:
        """Return how many kernels the group launches: a norm that reads its rows twice has two, a long list of tensors
        several.
        """
        if group.foreach:
            return -(-(len(reads) + len(writes)) // _COMBO_ARGUMENTS)
        return max([self._flow.loops[call].passes for call in group.calls])

    def _row(self, op: Op) -> int:
        key = (op.kind, op.name, op.dtype, op.sizes, tuple(op.attrs.items()), op.reads, op.writes)
        row = self._rows.setdefault(key, len(self._ops))
        if row == len(self._ops):
            self._ops.append(op)
        return row

    # ------------------------------------------------------------ buffers

    def _buffers(self, calls: list[Call]) -> tuple[dict[int, int], list[Buffer]]:
        """Return the buffers still in use, live from their first call to their last, and the new number of each."""
        first, last = _spans(calls)
        flow = self._flow
        started = {flow.buffer[value] for value, writer in enumerate(flow.writer) if writer < 0 and value not in flow.borrowed}
        number: dict[int, int] = {}
        kept: list[Buffer] = []
        for row, buffer in enumerate(self._old.buffers):
            there = buffer.category in _THERE_BEFORE or (row in started and buffer.born == 0)
            if row not in first and not (there and flow.lasting[row]):
                continue
            born = 0 if there else first[row]
            died = len(calls) if flow.lasting[row] else last.get(row, born) + 1
            number[row] = len(kept)
            kept.append(Buffer(buffer.tensor, buffer.category, born, died))
        return number, kept


def _spans(calls: list[Call]) -> tuple[dict[int, int], dict[int, int]]:
    """Return the first and the last call that touches each buffer."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, call in enumerate(calls):
        for buffer in call.reads + call.writes:
            last[buffer] = index
            if buffer not in first:
                first[buffer] = index
    return first, last


def _name(members: list[Op]) -> str:
    """Return the distinct names inside, in order: fused_add_native_layer_norm_to_copy."""
    if len(members) == 1:
        return members[0].name
    names = list(dict.fromkeys(op.name.strip("_") for op in members))
    more = ["more"] if len(names) > _SHOWN_NAMES else []
    return "_".join(["fused", *names[:_SHOWN_NAMES], *more])
