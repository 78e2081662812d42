"""A trace without a GPU: host ops that compute count as the work, and everything around them as the host's own time.

An op that spends at least half of its time outside the ops it calls does the computing itself; any other op only delegates. Views
and allocations compute nothing. Gloo collectives run on threads of their own, as kernels do on streams.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gpuwise.diagnose.steps import LOADER
from gpuwise.trace.types import COLUMNS, Events, Kind, Mask, Trace

__all__ = ["computing_ops", "joined", "named_ops"]

_FREE = frozenset(
    "view t transpose as_strided as_strided_ detach detach_ expand slice select unbind reshape permute squeeze unsqueeze chunk "
    "split narrow alias flatten unflatten split_with_sizes empty empty_like empty_strided new_empty new_empty_strided resize_ "
    "result_type item _local_scalar_dense is_nonzero to _to_copy contiguous clone lift_fresh set_ resolve_conj resolve_neg "
    "unsafe_view _unsafe_view view_as expand_as broadcast_tensors size stride record_stream movedim swapaxes numpy_T diagonal "
    "unfold real imag".split()
)
_COLLECTIVES = ("gloo:", "mpi:", "ucc:")
_OWN = 0.5


def computing_ops(trace: Trace) -> Events:
    """Return the outermost ops that compute, as kernels of device -1; each thread is a stream."""
    ops = trace.events.of(Kind.OP)
    known = np.array(
        [name.startswith(("aten::", "mkldnn::", "onednn::", "quantized::", "torchvision::")) for name in trace.names], dtype=bool
    )
    ops = ops.where(known[ops.name] & (ops.duration_ns > 0)) if len(ops) else ops
    free = np.array([name.partition("::")[2] in _FREE for name in trace.names], dtype=bool)
    chosen = np.zeros(len(ops), dtype=bool)
    for thread in np.unique(ops.thread):
        rows = np.flatnonzero(ops.thread == thread)
        chosen[rows] = _outermost_computing(ops.start_ns[rows], ops.end_ns[rows], free[ops.name[rows]])
    collectives = trace.marked(*_COLLECTIVES)
    collectives = collectives.where(collectives.duration_ns > 0)
    return _as_kernels(joined(_outside_loader(trace, ops.where(chosen)), collectives))


def named_ops(trace: Trace, *names: str) -> Events:
    """Return the ops with exactly these names."""
    wanted = np.array([name in names for name in trace.names], dtype=bool)
    return trace.events.where((trace.events.kind == Kind.OP) & wanted[trace.events.name]) if len(trace.events) else trace.events


def _outermost_computing(start: npt.NDArray[np.int64], end: npt.NDArray[np.int64], free: Mask) -> Mask:
    """Return which ops compute and are not inside another op that does. The ops are of one thread, in order of start, parents
    first.
    """
    own = (end - start).tolist()
    parents = [-1] * len(own)
    starts, ends = start.tolist(), end.tolist()
    stack: list[int] = []
    for row, begin in enumerate(starts):
        while stack and ends[stack[-1]] <= begin:
            stack.pop()
        if stack:
            parents[row] = stack[-1]
            own[stack[-1]] -= min(ends[row], ends[stack[-1]]) - begin
        stack.append(row)
    computes = (np.array(own) >= _OWN * (end - start)) & ~free
    covered = [False] * len(starts)
    for row, parent in enumerate(parents):
        covered[row] = parent >= 0 and (covered[parent] or bool(computes[parent]))
    return np.asarray(computes & ~np.array(covered, dtype=bool), dtype=bool)


def joined(one: Events, two: Events) -> Events:
    """Return the rows of both tables in order of start."""
    rows = Events(**{name: np.concatenate([getattr(one, name), getattr(two, name)]) for name in COLUMNS})
    return rows.where(np.argsort(rows.start_ns, kind="stable"))


def _as_kernels(ops: Events) -> Events:
    return replace(
        ops,
        kind=np.full(len(ops), int(Kind.KERNEL), dtype=np.uint8),
        device=np.full(len(ops), -1, dtype=np.int32),
        stream=ops.thread.astype(np.int64),
    )


def _outside_loader(trace: Trace, ops: Events) -> Events:
    """Remove the ops that a loader runs in the main process: they prepare the input and are not part of the model."""
    loading = trace.marked(*LOADER)
    if not len(loading):
        return ops
    order = np.argsort(loading.start_ns, kind="stable")
    start, end = loading.start_ns[order], np.maximum.accumulate(loading.end_ns[order])
    place = np.searchsorted(start, ops.start_ns, side="right") - 1
    inside = (place >= 0) & (ops.start_ns < end[np.maximum(place, 0)])
    return ops.where(~(inside & np.isin(ops.thread, np.unique(loading.thread))))
