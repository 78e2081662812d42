"""The memory that a step holds between its forward and backward passes however it is compiled, found without fusing it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuwise.kernels.registry import KINDS
from gpuwise.kernels.types import DTYPE_BYTES, Fusion
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.types import CATEGORIES, PHASES, Workload

__all__ = ["stored_bytes"]

_BACKWARD = PHASES.index("backward")
_THERE = [CATEGORIES.index(name) for name in ("weight", "optimizer", "input")]
_LEFT_ALONE = (Fusion.PRODUCT, Fusion.LIBRARY)


def stored_bytes(workload: Workload, batch: float | None = None) -> float:
    """Return the bytes of all lasting buffers and of those that the forward pass writes for library calls of the backward pass.
    Fusing neither removes nor recomputes these buffers, so `fused(workload)` never needs less.
    """
    calls, buffers = workload.calls, workload.buffers
    kept = np.isin(buffers.category, _THERE) & (buffers.born == 0) & (buffers.died >= len(calls))
    backward = calls.phase == _BACKWARD
    if backward.any() and not np.any(np.diff(calls.phase) < 0):
        kept |= _for_backward(workload, int(np.argmax(backward)))
    values = product_values(workload, batch)[0]
    sizes = np.array([values[spec.elements] * DTYPE_BYTES[spec.dtype] for spec in workload.tensors])
    return float(sizes[buffers.tensor[kept]].sum())


def _for_backward(workload: Workload, start: int) -> NDArray[np.bool_]:
    """Return the buffers written before this call that a library call from there on reads before anything overwrites them."""
    calls, count, end = workload.calls, len(workload.buffers), len(workload.calls)
    lengths = np.stack([calls.read_count, calls.written_count], axis=1).ravel()
    call = np.repeat(np.arange(end), calls.read_count + calls.written_count)
    written = np.repeat(np.tile([False, True], end), lengths)
    library = np.array([KINDS[op.kind].fusion in _LEFT_ALONE for op in workload.ops])[calls.op][call]
    read_at, written_at = np.full(count, end), np.full(count, end)
    for found, chosen in ((read_at, library & ~written), (written_at, written)):
        rows = np.flatnonzero(chosen & (call >= start))
        found[calls.refs[rows[::-1]]] = call[rows[::-1]]  # the first of several
    before = np.zeros(count, dtype=bool)
    before[calls.refs[written & (call < start)]] = True
    return before & (read_at < written_at)
