"""A trace without a GPU: the innermost ops of the host are taken as the work, and everything around them as the host's own
time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuwise.diagnose.steps import LOADER
from gpuwise.trace.types import Events, Kind, Trace

__all__ = ["leaf_ops"]

_COPIES = ("aten::copy_", "aten::_to_copy")
_VIEWS = (
    "aten::view",
    "aten::t",
    "aten::transpose",
    "aten::as_strided",
    "aten::detach",
    "aten::expand",
    "aten::slice",
    "aten::select",
)
_FRAMES = ("autograd::engine", "profilerstep", "optimizer.", "torch::autograd", "nn.module", "distributeddataparallel", *LOADER)


def leaf_ops(trace: Trace) -> Events:
    """Ops with no other op inside them on their thread, as kernels of device -1.

    Ops that run on several threads at once overlap; unions take care of it. Communication of gloo is an op like the others.
    """
    ops = trace.events.of(Kind.OP)
    framed = trace.named(*_FRAMES)
    ops = ops.where(~framed[ops.name]) if len(ops) else ops
    leaf = np.zeros(len(ops), dtype=bool)
    for thread in np.unique(ops.thread):
        rows = np.flatnonzero(ops.thread == thread)
        leaf[rows[_is_leaf(ops.start_ns[rows], ops.end_ns[rows])]] = True
    chosen = ops.where(leaf & (ops.duration_ns > 0))
    chosen = _outside_loader(trace, chosen)
    return Events(
        kind=np.full(len(chosen), int(Kind.KERNEL), dtype=np.uint8),
        name=chosen.name,
        start_ns=chosen.start_ns,
        duration_ns=chosen.duration_ns,
        process=chosen.process,
        thread=chosen.thread,
        device=np.full(len(chosen), -1, dtype=np.int32),
        stream=chosen.thread.astype(np.int64),
        correlation=chosen.correlation,
        size_bytes=chosen.size_bytes,
        blocks_per_sm=chosen.blocks_per_sm,
        shape=chosen.shape,
    )


def _is_leaf(start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """In order of start, an op contains another exactly when the next one starts before it ends."""
    nested = np.zeros(len(start), dtype=bool)
    nested[:-1] = start[1:] < end[:-1]
    return ~nested


def _outside_loader(trace: Trace, ops: Events) -> Events:
    """Without the ops that a loader runs in the main process: they prepare the input, they are not the model."""
    host = trace.events.of(Kind.OP, Kind.MARK)
    loading = host.where(trace.named(*LOADER)[host.name])
    if not len(loading):
        return ops
    order = np.argsort(loading.start_ns, kind="stable")
    start, end = loading.start_ns[order], np.maximum.accumulate(loading.end_ns[order])
    place = np.searchsorted(start, ops.start_ns, side="right") - 1
    inside = (place >= 0) & (ops.start_ns < end[np.maximum(place, 0)])
    same = np.isin(ops.thread, np.unique(loading.thread))
    return ops.where(~(inside & same))
