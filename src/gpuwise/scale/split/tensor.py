"""Finds which calls of a step tensor parallelism divides, by following the data flow; no architecture is hard-coded.

On each rank, every buffer is either complete, a part (some columns, heads or vocabulary entries), or a partial sum that must
still be reduced over the ranks. A weight applied to a complete input is split by columns, and its result is a part; one applied
to a part is split by rows, and its result is a partial sum (Shoeybi et al. 2019). Ops in between work on parts: activations,
attention by heads, losses by vocabulary. The backward pass follows the same rules. Partial sums are reduced when anything other
than an addition needs them: that is a message.

With sequence parallelism (Korthikanti et al. 2022), buffers that would be complete are divided by tokens, and each message
becomes a reduce-scatter and an all-gather of the same size.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple
from weakref import WeakKeyDictionary

from gpuwise.kernels.registry import KINDS
from gpuwise.kernels.types import OpKind, Split
from gpuwise.workload.model.edit import Draft
from gpuwise.workload.model.types import CATEGORIES, PHASES, Call, Op, Workload
from gpuwise.workload.transform.parts import parts_of

__all__ = ["Cut", "Message", "State", "TensorSplit", "tensor_split"]

_WEIGHT = CATEGORIES.index("weight")
_FORWARD, _UPDATE = PHASES.index("forward"), PHASES.index("optimizer")
_NARROW = 128  # columns: routers and small heads are not divided
_WIDER = 4  # a product this much wider than deep gathers its input instead of summing its result
_BATCH, _M, _N, _K = range(4)
_TABLE, _WORDS = 2, 8192


class State(IntEnum):
    """How a rank holds a buffer."""

    WHOLE = 0
    PART = 1
    SUM = 2


class Cut(NamedTuple):
    """The sizes, reads and writes of an op that are divided among the ranks. With `tokens`, none are, but its tokens may be
    divided.
    """

    sizes: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    tokens: bool = False


class Message(NamedTuple):
    """A tensor (a row of the workload's) that is summed over the ranks before this call."""

    call: int
    tensor: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorSplit:
    """`cuts` for every call; `states` for every buffer; `widths` are sizes (rows of products) that the ranks must divide
    evenly, with their meaning; `divided` is the fraction of weight elements that is divided.
    """

    cuts: tuple[Cut, ...]
    states: tuple[State, ...]
    messages: tuple[Message, ...]
    widths: tuple[tuple[int, str], ...]
    divided: float


_known: WeakKeyDictionary[Workload, TensorSplit] = WeakKeyDictionary()


def tensor_split(workload: Workload) -> TensorSplit:
    """Return how this step is divided by matrices; it is the same for any number of ranks, so it is computed once."""
    found = _known.get(workload)
    if found is None:
        found = _known[workload] = _Follower(workload).split()
    return found


class _Follower:
    """Walks the calls in order and tracks the state of each buffer."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.draft = Draft(workload)
        self.states = [State.WHOLE] * len(workload.buffers)
        self.category = workload.buffers.category.tolist()
        self.origin: dict[int, int] = {}  # a cast of a weight -> the weight
        self.messages: list[Message] = []
        self.summed: dict[int, int] = {}  # a sum -> the tensor that the product wrote, before casts
        self.widths: dict[tuple[int, str], None] = {}
        self.taken: set[int] = set()  # weights whose split is decided
        parts = parts_of(workload)
        self.inside = ((parts.place > 0) & (parts.place <= len(parts.blocks))).tolist()

    def split(self) -> TensorSplit:
        cuts = tuple(
            Cut() if call.phase == _UPDATE else self._cut(number, call, self.workload.ops[call.op])
            for number, call in enumerate(self.workload.calls)
        )
        for row in self.taken:
            self.states[row] = State.PART
        return TensorSplit(
            cuts=cuts,
            states=tuple(self.states),
            messages=tuple(self.messages),
            widths=tuple(self.widths),
            divided=self._divided(),
        )

    def _divided(self) -> float:
        weights = [row for row, category in enumerate(self.category) if category == _WEIGHT]
        sizes = {
            row: self.draft.value(self.workload.tensors[self.workload.buffers[row].tensor].elements) or 0.0 for row in weights
        }
        return sum(sizes[row] for row in weights if row in self.taken) / max(1.0, sum(sizes.values()))

    # ------------------------------------------------------------ one call

    def _cut(self, number: int, call: Call, op: Op) -> Cut:
        kind = KINDS[op.kind]
        if kind.split is Split.MATRIX:
            return self._matmul(number, call, op)
        linear = kind.split is Split.CAST or (kind.split is Split.ADDS and op.name.startswith("add"))
        states = {self.states[row] for row in call.reads}
        if linear and State.SUM in states and State.PART not in states:
            self._sum(call, next(self.summed[row] for row in call.reads if self.states[row] == State.SUM))
            return Cut(tokens=True)
        self._settle(number, call)
        if kind.split is Split.CAST and len(call.reads) == 1 and self._weight(call.reads[0]) is not None:
            self.origin.update(dict.fromkeys(call.writes, self._weight(call.reads[0]) or 0))
        if kind.split is Split.TABLE:
            return self._embedding(call, op)
        if kind.split is Split.WHOLE or not any(self.states[row] == State.PART for row in call.reads):
            self._write(call, State.WHOLE)
            return Cut(tokens=kind.split is not Split.WHOLE)
        return self._follows(number, call, op, kind)

    def _follows(self, number: int, call: Call, op: Op, kind: OpKind) -> Cut:
        """A call on parts produces parts; a loss over the vocabulary produces a number that all ranks share."""
        self._write(call, State.PART)
        sizes = tuple(kind.sizes.index(name) for name in kind.divided or kind.sizes[:1])
        if kind.split is Split.HEADS:
            self._must_divide(number, op.sizes[kind.sizes.index("heads")], "attention heads")
            self._must_divide(number, op.sizes[kind.sizes.index("kv_heads")], "key-value heads")
        reads = tuple(place for place, row in enumerate(call.reads) if self.states[row] == State.PART)
        writes = tuple(range(len(op.writes)))
        if kind.split is Split.LOSS and call.phase == _FORWARD:
            self._write(call, State.WHOLE)
            writes = ()
        return Cut(sizes=sizes[: len(op.sizes)], reads=reads, writes=writes)

    def _embedding(self, call: Call, op: Op) -> Cut:
        """Divided by vocabulary: each rank looks up its own entries, and the results are summed; its gradient is a part. Small
        tables are not divided.
        """
        words = (self.draft.value(op.sizes[_TABLE]) or 0.0) >= _WORDS
        if words and call.phase == _FORWARD:
            self._sum(call, op.writes[0])
        else:
            self._write(call, State.PART if words else State.WHOLE)
        return Cut(tokens=True)

    def _matmul(self, number: int, call: Call, op: Op) -> Cut:
        self._settle(number, call)
        first, second = call.reads[:2] if len(call.reads) > 1 else (call.reads[0], call.reads[0])
        weight = next((row for row in (self._weight(second), self._weight(first)) if row is not None), None)
        if weight is not None and call.phase == _FORWARD and weight not in self.taken:
            return self._weighted(number, call, op, weight)
        held = [self._held(row) for row in (first, second)]
        if State.PART not in held:
            self._write(call, State.WHOLE)
            return Cut(tokens=False)
        if weight is None and not self._single(op):
            return self._divides(call, op, _BATCH, (0, 1), State.PART)
        if held == [State.PART, State.PART]:
            return self._divides(call, op, _K, (0, 1), State.SUM)
        return self._divides(call, op, _M, (0,), State.PART) if held[0] else self._divides(call, op, _N, (1,), State.PART)

    def _weighted(self, number: int, call: Call, op: Op, weight: int) -> Cut:
        """The first use of a weight with its input decides how the weight is split."""
        wide, deep = (self.draft.value(op.sizes[size]) or 0.0 for size in (_N, _K))
        part = self.states[call.reads[0]] == State.PART
        if part and wide > _WIDER * deep:
            self.messages.append(Message(number, op.reads[0]))
            self.states[call.reads[0]] = State.WHOLE
        elif part:
            self.taken.add(weight)
            return self._divides(call, op, _K, (0, 1), State.SUM)
        if wide < _NARROW:
            self._write(call, State.WHOLE)
            return Cut(tokens=True)
        self.taken.add(weight)
        self._must_divide(number, op.sizes[_N], "columns")
        return self._divides(call, op, _N, (1, 2), State.PART)

    def _divides(self, call: Call, op: Op, size: int, reads: tuple[int, ...], state: State) -> Cut:
        if state == State.SUM:
            self._sum(call, op.writes[0])
        else:
            self._write(call, state)
        writes = () if state == State.SUM else tuple(range(len(op.writes)))
        return Cut(sizes=(size,), reads=tuple(place for place in reads if place < len(op.reads)), writes=writes)

    # ------------------------------------------------------------ buffers

    def _held(self, row: int) -> State:
        weight = self._weight(row)
        return self.states[row] if weight is None else State.PART if weight in self.taken else State.WHOLE

    def _weight(self, row: int) -> int | None:
        return row if self.category[row] == _WEIGHT else self.origin.get(row)

    def _single(self, op: Op) -> bool:
        return self.draft.value(op.sizes[_BATCH]) == 1.0

    def _must_divide(self, number: int, size: int, what: str) -> None:
        """Sizes outside the blocks, such as the vocabulary, are padded instead."""
        if self.inside[number]:
            self.widths[size, what] = None

    def _settle(self, number: int, call: Call) -> None:
        """Reduce the partial sums that this call needs in full; those that it adds itself become one message."""
        sums = [row for row in call.reads if self.states[row] == State.SUM]
        if sums:
            self.messages.append(Message(number, self.summed[sums[0]]))
        for row in sums:
            self.states[row] = State.WHOLE

    def _sum(self, call: Call, tensor: int) -> None:
        self._write(call, State.SUM)
        self.summed.update(dict.fromkeys(call.writes, tensor))

    def _write(self, call: Call, state: State) -> None:
        for row in call.writes:
            if self.category[row] != _WEIGHT:
                self.states[row] = state
