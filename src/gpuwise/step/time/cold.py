"""Which bytes of a step are surely not in a cache when they are read: those of weights that each product reads once.

A weight is an operand whose size grows with neither batch nor sequence. Where a loop reads the same weights again and again (the
cells of an RNN), nothing is claimed: a cache may hold them.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from gpuwise.kernels.registry import KINDS
from gpuwise.kernels.types import Array
from gpuwise.workload.model.evaluate import call_counts
from gpuwise.workload.model.types import DTYPE_BYTES, Form, Workload

__all__ = ["cold_bytes"]

_ONCE = 1.1  # the parameters, with a little for those that are padded


_known: WeakKeyDictionary[Form, Array] = WeakKeyDictionary()


def cold_bytes(workload: Workload) -> Array:
    """Bytes of weights that one call of each op reads; found once for all sizes of a step."""
    found = _known.get(workload.form)
    if found is None:
        found = _known[workload.form] = _found(workload)
    return found


def _found(workload: Workload) -> Array:
    found = np.zeros(len(workload.ops))
    if not workload.symbols:
        return found  # every size is fixed: weights cannot be told from the rest
    fixed = (workload.dims[:, 1:] == 0).all(axis=1)
    elements = np.zeros(len(workload.ops))
    for place, op in enumerate(workload.ops):
        for row in op.reads[:2] if KINDS[op.kind].model.reads_weights else ():
            dims = list(workload.products[workload.tensors[row].elements])
            if fixed[dims].all():
                size = float(np.prod(workload.dims[dims, 0]))
                elements[place] += size
                found[place] += size * DTYPE_BYTES[workload.tensors[row].dtype]
    passes = call_counts(workload) @ elements  # of each phase
    return found if passes.max(initial=0.0) <= _ONCE * workload.parameters else np.zeros_like(found)
