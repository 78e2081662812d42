"""Writes the workload of fused calls: their ops, what they still read and write, and the remaining buffers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gpuwise.kernels.registry import KINDS
from gpuwise.kernels.types import Fusion
from gpuwise.workload.compile.flow import Flow
from gpuwise.workload.compile.groups import Group
from gpuwise.workload.compile.outside import Kernels, Moves
from gpuwise.workload.compile.roles import Sizes
from gpuwise.workload.model.types import AttrValue, Calls, Op, Workload, ints

__all__ = ["in_order", "written"]

# The kind of work whose model a fused kernel uses: the most expensive one in it. Anything else is a loop over elements.
_RANK = {role: rank for rank, role in enumerate(Fusion)}
_LAST = _RANK[Fusion.LIST]
_MAY_LOOP = (Fusion.NORM, Fusion.ROWS, Fusion.LOSS)
_ALIKE = (Fusion.LOOP, Fusion.COPY, Fusion.RANDOM)  # several of one kind count as one more of it
_SHOWN_NAMES = 6
_COMBO_ARGUMENTS = 250  # combo_kernel_max_num_args: how many tensors one kernel over a list can take


def in_order(flow: Flow, group_of: list[Group]) -> list[Group]:
    """Return the groups in launch order."""
    distinct = {id(group): group for group in group_of}.values()
    return sorted(distinct, key=lambda group: (flow.segment[group.calls[0]], group.place))


def written(flow: Flow, sizes: Sizes, kernels: Kernels) -> Workload:
    """Return the workload whose calls are these kernels."""
    return _Writer(flow, sizes, kernels).workload()


class _Writer:
    def __init__(self, flow: Flow, sizes: Sizes, kernels: Kernels) -> None:
        self._flow, self._sizes, self._kernels = flow, sizes, kernels
        self._old = flow.workload
        self._op: list[int] = flow.workload.calls.op.tolist()
        self._rows: dict[tuple[object, ...], int] = {}
        self._ops: list[Op] = []

    def workload(self) -> Workload:
        kernels, old = self._kernels, self._old.calls
        first = ints(group.calls[0] for group in kernels.groups)
        op, anchor = self._launched()
        moves = kernels.reads.then(kernels.writes)
        read_count, written_count = (
            np.bincount(part.kernel, minlength=len(kernels.groups)) for part in (kernels.reads, kernels.writes)
        )
        calls = Calls(
            op=ints(op),
            phase=old.phase[first],
            module=old.module[ints(anchor)],
            read_count=read_count,
            written_count=written_count,
            refs=kernels.number[moves.buffer],
        )
        return replace(self._old, ops=tuple(self._ops), calls=calls, buffers=kernels.buffers)

    # ------------------------------------------------------------ calls

    def _launched(self) -> tuple[list[int], list[int]]:
        """Return the op of each kernel, and the call that determines its kind. Kernels with the same ops that move the same
        tensors share one op, as in the blocks of a model.
        """
        known: dict[object, tuple[int, int]] = {}
        op: list[int] = []
        anchor: list[int] = []
        reads, writes = (_by_kernel(moves, len(self._kernels.groups)) for moves in (self._kernels.reads, self._kernels.writes))
        for group, recorded, *moved in zip(self._kernels.groups, self._kernels.recorded.tolist(), reads, writes, strict=True):
            inside = tuple([self._op[call] for call in group.calls])
            key = inside[0] if recorded else (inside, group.space, group.foreach, *moved)
            if key not in known:
                place = 0 if recorded else self._anchor(group)
                made = self._old.ops[inside[0]] if recorded else self._fused_op(group, group.calls[place], *moved)
                known[key] = (self._row(made), place)
            row, place = known[key]
            op.append(row)
            anchor.append(group.calls[place])
        return op, anchor

    def _anchor(self, group: Group) -> int:
        """Return the place of the call whose kind of work is the most expensive."""
        ranks = [len(_RANK) if self._is_loop(call) else _RANK[self._role_of(call)] for call in group.calls]
        return ranks.index(min(ranks))

    def _op_of(self, call: int) -> Op:
        return self._old.ops[self._op[call]]

    def _role_of(self, call: int) -> Fusion:
        return KINDS[self._op_of(call).kind].fusion

    # ------------------------------------------------------------ ops

    def _is_loop(self, call: int) -> bool:
        """Return whether a call is an ordinary elementwise loop; batch norm at inference is one too."""
        role = self._role_of(call)
        return _RANK[role] > _LAST or (role in _MAY_LOOP and self._flow.loops[call].rows < 0)

    def _fused_op(self, group: Group, anchor: int, reads: _Moved, writes: _Moved) -> Op:
        old = self._op_of(anchor)
        members = [self._op_of(call) for call in group.calls]
        kind, sizes, dtype = old.kind, old.sizes, old.dtype
        attrs: dict[str, AttrValue] = dict(old.attrs)
        if len(members) > 1:
            if self._is_loop(anchor):
                kind, sizes, dtype = self._loop(group, members, writes.tensors)
                attrs = {}
            attrs["fused"] = len(members)
        launches = self._launches(group, reads.buffer_count + writes.buffer_count)
        if launches > 1:
            attrs["launches"] = launches
        return Op(kind, _name(members), dtype, sizes, attrs, reads.tensors, writes.tensors)

    def _loop(self, group: Group, members: list[Op], writes: tuple[int, ...]) -> tuple[str, tuple[int, ...], str]:
        """A kernel without reductions: as many elements as its loop has, in the dtype of the largest tensor it writes."""
        kinds = {op.kind for op in members}
        kind = kinds.pop() if len(kinds) == 1 and KINDS[members[0].kind].fusion in _ALIKE else "elementwise"
        lead = next((call for call in group.calls if self._flow.loops[call].space == group.space), group.calls[-1])
        specs, bytes_of = self._old.tensors, self._sizes.bytes
        rows = [specs[tensor].elements for tensor in self._op_of(lead).writes or self._op_of(lead).reads]
        largest = max(writes, key=lambda tensor: bytes_of[tensor])
        return kind, (max(rows, key=self._sizes.of),), specs[largest].dtype

    def _launches(self, group: Group, buffer_count: int) -> int:
        """Return how many kernels the group launches: a norm that reads its rows twice has two, a long list of tensors
        several.
        """
        if group.foreach:
            return -(-buffer_count // _COMBO_ARGUMENTS)
        return max([self._flow.loops[call].passes for call in group.calls])

    def _row(self, op: Op) -> int:
        key = (op.kind, op.name, op.dtype, op.sizes, tuple(op.attrs.items()), op.reads, op.writes)
        row = self._rows.setdefault(key, len(self._ops))
        if row == len(self._ops):
            self._ops.append(op)
        return row


class _Moved(NamedTuple):
    """The tensors that one kernel reads or writes, and the number of buffers they are in."""

    tensors: tuple[int, ...]
    buffer_count: int


def _by_kernel(moves: Moves, count: int) -> list[_Moved]:
    """Return the moves of each kernel."""
    ends = np.searchsorted(moves.kernel, np.arange(1, count + 1)).tolist()
    tensors, buffers = moves.tensor.tolist(), moves.buffer.tolist()
    return [_Moved(tuple(tensors[start:end]), len({*buffers[start:end]})) for start, end in pairwise([0, *ends])]


def _name(members: list[Op]) -> str:
    """Return the distinct names inside, in order: fused_add_native_layer_norm_to_copy."""
    if len(members) == 1:
        return members[0].name
    names = list(dict.fromkeys(op.name.strip("_") for op in members))
    more = ["more"] if len(names) > _SHOWN_NAMES else []
    return "_".join(["fused", *names[:_SHOWN_NAMES], *more])
