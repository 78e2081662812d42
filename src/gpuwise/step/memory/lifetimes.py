"""Which buffers of a step live when: the arrays that peaks and allocators are computed from.

What does not depend on the size is taken from a workload once, so that asking for many batches is array arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from gpuwise.kernels.registry import KINDS
from gpuwise.step.types import Array
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.types import CATEGORIES, DTYPE_BYTES, PHASES, Form, Op, Workload

__all__ = ["Lives", "convolved_bytes", "first_update", "lives_of", "peak_bytes", "tensor_bytes_of"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Lives:
    """The buffers of a workload by row: `tensor` is its size (a row of `tensors`), the others as in `Buffer`.

    `convolved` are the tensors that convolutions with a window read and write, depthwise ones left out.
    """

    trains: bool
    multiplies: bool
    tensor: Array
    category: Array
    born: Array
    died: Array
    elements: Array
    width: Array
    phase: Array
    convolved: Array

    @property
    def calls(self) -> int:
        return len(self.phase)

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


def peak_bytes(workload: Workload, batch: float | None, seq: float | None) -> float:
    """Bytes of all live tensors at the worst call."""
    return _largest(workload, batch, seq, _in_use)


def convolved_bytes(workload: Workload, batch: float | None, seq: float | None) -> float:
    """The largest tensor that a convolution with a window reads or writes; 0 without one."""
    return _largest(workload, batch, seq, _convolved) if len(lives_of(workload).convolved) else 0.0


def _in_use(lives: Lives, tensor_bytes: Array) -> Array:
    found: Array = lives.live(tensor_bytes).sum(axis=0)
    return found


def _convolved(lives: Lives, tensor_bytes: Array) -> Array:
    return tensor_bytes[lives.convolved]


def _largest(workload: Workload, batch: float | None, seq: float | None, what: Callable[[Lives, Array], Array]) -> float:
    """The largest of many figures. Where each is a straight line over the batch, as nearly always, they are computed once."""

    def at(size: float | None) -> Array:
        return what(lives_of(workload), tensor_bytes_of(workload, size, seq))

    if batch is None or "batch" not in workload.symbols:
        return float(at(batch).max())
    known, key = _lines.setdefault(workload.form, {}), (what, workload.seq if seq is None else seq)
    if key not in known:
        known[key] = _straight(*map(at, _PROBES))
    lines = known[key]
    return float(at(batch).max() if lines is None else (lines[0] + batch * lines[1]).max())


def _straight(first: Array, second: Array, last: Array) -> tuple[Array, Array] | None:
    slope = (second - first) / (_PROBES[1] - _PROBES[0])
    start = first - _PROBES[0] * slope
    return (start, slope) if np.allclose(start + _PROBES[2] * slope, last, rtol=1e-9) else None


_PROBES = (1, 2, 64)
_lines: WeakKeyDictionary[Form, dict[object, tuple[Array, Array] | None]] = WeakKeyDictionary()
_known: WeakKeyDictionary[Form, Lives] = WeakKeyDictionary()


def lives_of(workload: Workload) -> Lives:
    """The arrays of this workload, made once."""
    found = _known.get(workload.form)
    if found is None:
        found = _known[workload.form] = _made(workload)
    return found


def _made(workload: Workload) -> Lives:
    buffers = np.array([(b.tensor, b.category, b.born, b.died) for b in workload.buffers], dtype=np.int64).reshape(-1, 4)
    values = product_values(workload)[0]
    convolved = {row for op in workload.ops if _has_window(op, values) for row in (*op.reads, *op.writes)}
    return Lives(
        trains=workload.mode == "train",
        multiplies=any(op.kind == "matmul" for op in workload.ops),
        tensor=buffers[:, 0],
        category=buffers[:, 1],
        born=buffers[:, 2],
        died=buffers[:, 3],
        elements=np.array([tensor.elements for tensor in workload.tensors], dtype=np.int64),
        width=np.array([DTYPE_BYTES[tensor.dtype] for tensor in workload.tensors]),
        phase=np.array([call.phase for call in workload.calls], dtype=np.int64),
        convolved=np.array(sorted(convolved), dtype=np.int64),
    )


def _has_window(op: Op, values: Array) -> bool:
    """Convolutions that look at more than one position and mix channels: only for these cuDNN was seen to borrow much."""
    if op.kind != "conv":
        return False
    sizes = dict(zip(KINDS["conv"].sizes, (float(values[row]) for row in op.sizes), strict=True))
    return sizes["kernel"] > 1 and op.attrs.get("groups", 1) not in (sizes["c_in"], sizes["c_out"])


def first_update(lives: Lives) -> int:
    """The call at which the optimizer begins, or the number of calls."""
    found = np.flatnonzero(lives.phase == PHASES.index("optimizer"))
    return int(found[0]) if len(found) else lives.calls
