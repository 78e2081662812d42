"""The work of one rank in each unit of a model: its calls, with sizes reduced to the rank's part.

The work is divided by matrices over `tensor` ranks (`tokens` divides by tokens what each of them would otherwise hold in full),
by sequence over `context` ranks, and by experts of a mixture over `expert` ranks. Samples and layers are divided elsewhere,
because that changes no call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuwise.kernels.registry import KINDS
from gpuwise.kernels.types import Split
from gpuwise.scale.split.tensor import Cut, tensor_split
from gpuwise.workload.model.edit import Draft
from gpuwise.workload.model.types import Buffers, Call, Calls, Ints, Op, Workload, ints
from gpuwise.workload.transform.parts import NOWHERE, Parts

__all__ = ["Degrees", "Share", "has_experts", "share_of"]

_BATCH, _M, _N, _K = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrees:
    """The numbers of ranks over which the parts of a layer's work are divided."""

    tensor: int = 1
    tokens: bool = False
    context: int = 1
    expert: int = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Share:
    """One rank's calls of every unit, as a separate workload; `unit` is the unit of each call, `number` its number in the
    model.
    """

    workload: Workload
    unit: Ints
    number: Ints


def has_experts(workload: Workload) -> bool:
    """Whether there is a bank of experts to divide."""
    return any(op.attrs.get("groups") == "experts" for op in workload.ops)


def share_of(parts: Parts, degrees: Degrees) -> Share:
    """Return the calls that represent all others, as one rank runs them."""
    kept = np.flatnonzero(parts.unit != NOWHERE)
    calls = [_without_buffers(parts.workload.calls[number]) for number in kept.tolist()]
    draft = Draft(replace(parts.workload, calls=Calls.of(calls), buffers=Buffers.of(())))
    if degrees != Degrees():
        cuts = tensor_split(parts.workload).cuts
        banks = _banks(parts.workload)
        writer = _Writer(draft, degrees, banks)
        draft.calls = [
            _with_op(call, writer.op(parts.workload.ops[call.op], cuts[kept[place]])) for place, call in enumerate(calls)
        ]
    return Share(workload=_without_idle_ops(draft.done()), unit=parts.unit[kept], number=kept)


def _without_buffers(call: Call) -> Call:
    return Call(call.op, call.phase, call.module, (), ())


def _with_op(call: Call, op: int) -> Call:
    return Call(op, call.phase, call.module, (), ())


def _banks(workload: Workload) -> frozenset[int]:
    """Sizes of the weights of experts."""
    draft = Draft(replace(workload, calls=Calls.of(()), buffers=Buffers.of(())))
    grouped = [op for op in workload.ops if op.attrs.get("groups") == "experts"]
    rows = {workload.tensors[row].elements for op in grouped for row in (*op.reads, *op.writes)}
    return frozenset(row for row in rows if draft.value(row) is not None)


class _Writer:
    """Rewrites each distinct op once."""

    def __init__(self, draft: Draft, degrees: Degrees, banks: frozenset[int]) -> None:
        self.draft, self.degrees, self.banks = draft, degrees, banks
        self.known: dict[tuple[int, Cut], int] = {}

    def op(self, op: Op, cut: Cut) -> int:
        key = (id(op), cut)
        if key not in self.known:
            self.known[key] = self.draft.op(self._expert(self._context(self._tensor(op, cut))))
        return self.known[key]

    def _tensor(self, op: Op, cut: Cut) -> Op:
        part = 1.0 / self.degrees.tensor
        if part == 1.0:
            return op
        if cut.tokens:
            return self._by_tokens(op, part) if self.degrees.tokens else op
        sizes = tuple(self.draft.scaled(row, part) if place in cut.sizes else row for place, row in enumerate(op.sizes))
        reads, writes = (
            tuple(self._tensor_part(row, part) if place in chosen else row for place, row in enumerate(rows))
            for rows, chosen in ((op.reads, cut.reads), (op.writes, cut.writes))
        )
        return replace(op, sizes=sizes, reads=reads, writes=writes)

    def _by_tokens(self, op: Op, part: float) -> Op:
        """Work that every rank would otherwise repeat is divided by tokens."""
        if not op.sizes or all(self._fixed(row) for row in (*op.reads, *op.writes)):
            return op
        kind = KINDS[op.kind]
        main = kind.sizes.index(kind.tokens) if kind.tokens else 0
        sizes = tuple(self.draft.scaled(row, part) if place == main else row for place, row in enumerate(op.sizes))
        reads, writes = (
            tuple(row if self._fixed(row) else self._tensor_part(row, part) for row in rows) for rows in (op.reads, op.writes)
        )
        return replace(op, sizes=sizes, reads=reads, writes=writes)

    def _context(self, op: Op) -> Op:
        """Each rank has some of the queries, which still attend to all keys."""
        kind = KINDS[op.kind]
        if self.degrees.context == 1 or kind.split is not Split.HEADS:
            return op
        keys = kind.sizes.index("kv_len")
        longer = self.draft.scaled(op.sizes[keys], float(self.degrees.context))
        return replace(op, sizes=(*op.sizes[:keys], longer, *op.sizes[keys + 1 :]))

    def _expert(self, op: Op) -> Op:
        """Each rank has some of the experts, with the tokens of all ranks that share them."""
        count = float(self.degrees.expert)
        if count == 1.0:
            return op
        reads, writes = (
            tuple(self._tensor_part(row, 1 / count) if self._in_bank(row) else row for row in rows)
            for rows in (op.reads, op.writes)
        )
        sizes = op.sizes
        if op.attrs.get("groups") == "experts":
            tokens = _M if self.draft.value(op.sizes[_M]) is None else _K
            factor = {_BATCH: 1 / count, tokens: count}
            sizes = tuple(self.draft.scaled(row, factor[place]) if place in factor else row for place, row in enumerate(sizes))
        elif any(map(self._in_bank, (*op.reads, *op.writes))):
            sizes = (self.draft.scaled(sizes[0], 1 / count), *sizes[1:])
        return replace(op, sizes=sizes, reads=reads, writes=writes)

    def _in_bank(self, tensor: int) -> bool:
        return self.draft.tensors[tensor].elements in self.banks

    def _fixed(self, tensor: int) -> bool:
        return self.draft.value(self.draft.tensors[tensor].elements) is not None

    def _tensor_part(self, tensor: int, part: float) -> int:
        spec = self.draft.tensors[tensor]
        return self.draft.tensor(spec.dtype, self.draft.scaled(spec.elements, part))


def _without_idle_ops(workload: Workload) -> Workload:
    """Keep only the ops that are called, so that no others are evaluated."""
    used, row = np.unique(workload.calls.op, return_inverse=True)
    return replace(
        workload, ops=tuple(workload.ops[op] for op in used.tolist()), calls=replace(workload.calls, op=ints(row.tolist()))
    )
