"""Which buffers of a step live when: the arrays that peaks and allocators are computed from.

What does not depend on the size is taken from a workload once, so that asking for many batches is array arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from gpuwise.step.types import Array
from gpuwise.workload.evaluate import product_values
from gpuwise.workload.types import CATEGORIES, DTYPE_BYTES, PHASES, Workload

__all__ = ["BORROWING", "Lives", "first_update", "lives_of", "tensor_bytes_of"]

# Ops for which a library asks for memory of its own, by what they are.
BORROWING = ("conv", "rnn")


@dataclass(frozen=True, kw_only=True, eq=False)
class Lives:
    """The buffers of a workload by row: `tensor` is its size (a row of `tensors`), the others as in `Buffer`.

    `borrowers` are the calls for which a library borrows memory, `operands` the tensors that each reads and writes.
    """

    trains: bool
    tensor: Array
    category: Array
    born: Array
    died: Array
    elements: Array
    width: Array
    phase: Array
    borrowers: Array
    operands: tuple[tuple[int, ...], ...]
    largest: Array

    @property
    def calls(self) -> int:
        return len(self.phase)

    def borrowed(self, tensor_bytes: Array, share: float, most: float) -> Array:
        """What libraries borrow during each call: a share of the largest operand, up to a limit."""
        found = np.zeros(max(1, self.calls))
        if len(self.borrowers):
            largest = np.array([max(tensor_bytes[list(rows)], default=0.0) for rows in self.operands])
            found[self.borrowers] = np.minimum(share * largest, most)[self.largest]
        return found

    def live(self, tensor_bytes: Array) -> Array:
        """Bytes in use during each call, shape (categories, calls)."""
        change = np.zeros((len(CATEGORIES), self.calls + 2))
        sizes = tensor_bytes[self.tensor]
        np.add.at(change, (self.category, self.born), sizes)
        np.add.at(change, (self.category, self.died), -sizes)
        found: Array = np.cumsum(change, axis=1)[:, : max(1, self.calls)]
        return found


def tensor_bytes_of(workload: Workload, batch: float | None, seq: float | None) -> Array:
    """Bytes of each distinct tensor at one size."""
    lives = lives_of(workload)
    found: Array = product_values(workload, batch, seq)[0][lives.elements] * lives.width
    return found


_known: WeakKeyDictionary[Workload, Lives] = WeakKeyDictionary()


def lives_of(workload: Workload) -> Lives:
    """The arrays of this workload, made once."""
    found = _known.get(workload)
    if found is None:
        found = _known[workload] = _made(workload)
    return found


def _made(workload: Workload) -> Lives:
    buffers = np.array([(b.tensor, b.category, b.born, b.died) for b in workload.buffers], dtype=np.int64).reshape(-1, 4)
    distinct = {number: place for place, number in enumerate(n for n, op in enumerate(workload.ops) if op.kind in BORROWING)}
    calls = [(number, call.op) for number, call in enumerate(workload.calls) if call.op in distinct]
    return Lives(
        trains=workload.mode == "train",
        tensor=buffers[:, 0],
        category=buffers[:, 1],
        born=buffers[:, 2],
        died=buffers[:, 3],
        elements=np.array([tensor.elements for tensor in workload.tensors], dtype=np.int64),
        width=np.array([DTYPE_BYTES[tensor.dtype] for tensor in workload.tensors]),
        phase=np.array([call.phase for call in workload.calls], dtype=np.int64),
        borrowers=np.array([number for number, _ in calls], dtype=np.int64),
        operands=tuple((*workload.ops[number].reads, *workload.ops[number].writes) for number in distinct),
        largest=np.array([distinct[op] for _, op in calls], dtype=np.int64),
    )


def first_update(lives: Lives) -> int:
    """The call at which the optimizer begins, or the number of calls."""
    found = np.flatnonzero(lives.phase == PHASES.index("optimizer"))
    return int(found[0]) if len(found) else lives.calls
