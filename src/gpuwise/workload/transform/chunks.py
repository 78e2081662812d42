"""A prompt that is read in chunks: each chunk attends to itself and to earlier chunks, but not to later ones."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from gpuwise.workload.model.types import Workload

__all__ = ["in_chunks"]

_KEYS = 4  # the place of the number of keys among the sizes of attention


@lru_cache(maxsize=64)
def in_chunks(workload: Workload, chunk: int) -> Workload:
    """Return the pass with every token of a prompt attending to as many keys as tokens do on average: half of the prompt and half
    of a chunk.

    Only attention that writes its scores needs this, because it computes all of them; fused kernels skip the tokens that follow.
    """
    if not chunk or workload.seq is None or workload.seq <= chunk:
        return workload
    own = len(workload.products)
    dims = np.vstack([workload.dims, [chunk / 2.0, 0.0, 0.5, 0.0]])
    ops = tuple(
        replace(op, sizes=(*op.sizes[:_KEYS], own, *op.sizes[_KEYS + 1 :])) if op.kind == "attention" else op
        for op in workload.ops
    )
    return replace(workload, dims=dims, products=(*workload.products, (len(dims) - 1,)), ops=ops)
