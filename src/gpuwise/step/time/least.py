"""The shortest time a step can take on a GPU with any software: no product exceeds the peak, and no weight arrives faster than
the memory bandwidth allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from gpuwise.hardware.types import Gpu
from gpuwise.kernels.registry import KINDS
from gpuwise.kernels.times import gpus_of
from gpuwise.kernels.types import dtype_code
from gpuwise.step.types import Array, Setting
from gpuwise.workload.model.evaluate import call_counts, op_flops, product_values
from gpuwise.workload.model.types import CATEGORIES, DTYPE_BYTES, Form, Workload

__all__ = ["LEAST_RESTS_ON", "least_s"]

_ABOVE_SHEET = 1.15  # of the rated clock, assumed: a cool GeForce card runs above its datasheet clock
_CACHES = 2.0  # assumed: weights larger than this many times the cache are read again in each step
LEAST_RESTS_ON = f"matrix products at {_ABOVE_SHEET:g} times the rated peak, weights and inputs read once at the rated bandwidth"


def least_s(workload: Workload, gpus: Sequence[Gpu], setting: Setting, *, batch: Any = None, seq: Any = None) -> Array:
    """Return a lower bound for the step in seconds, shape (points, gpus). There is no bound for CPUs: 0."""
    values = product_values(workload, batch, seq)
    columns = gpus_of(gpus)
    flops = op_flops(workload, values) * call_counts(workload).sum(axis=0) * [KINDS[op.kind].needed(op) for op in workload.ops]
    codes = [dtype_code("tf32" if setting.tf32 and op.dtype == "fp32" else op.dtype) for op in workload.ops]
    computing = flops @ (1.0 / (_ABOVE_SHEET * columns.peak[codes]))
    read = _read_bytes(workload, values)[:, None]
    reading = np.where(read > _CACHES * columns.cache, read / columns.bandwidth, 0.0)
    found: Array = np.maximum(computing, reading) * [not gpu.is_cpu for gpu in gpus]
    return found


def _read_bytes(workload: Workload, values: Array) -> Array:
    """Return the bytes of weights and inputs that a step reads at least once, for each point."""
    found = _reads.get(workload.form)
    if found is None:
        found = _reads[workload.form] = _read_tensors(workload)
    elements, width = found
    read: Array = values[:, elements] @ width
    return read


def _read_tensors(workload: Workload) -> tuple[Array, Array]:
    """Return, for every weight and input that is read in full, its number of elements as a row of `products`, and the element
    size.
    """
    calls, buffers = workload.calls, workload.buffers
    lengths = calls.read_count + calls.written_count
    call = np.repeat(np.arange(len(calls)), lengths)
    is_read = np.arange(len(calls.refs)) - (np.cumsum(lengths) - lengths)[call] < calls.read_count[call]
    whole = np.array([KINDS[op.kind].reads_whole for op in workload.ops], dtype=bool)[calls.op][call]
    given = np.isin(buffers.category, [CATEGORIES.index(name) for name in ("weight", "input")])
    read = np.zeros(len(buffers), dtype=bool)
    read[calls.refs[is_read & whole]] = True
    tensors = [workload.tensors[row] for row in buffers.tensor[read & given].tolist()]
    return np.array([one.elements for one in tensors], dtype=np.int64), np.array([DTYPE_BYTES[one.dtype] for one in tensors])


_reads: WeakKeyDictionary[Form, tuple[Array, Array]] = WeakKeyDictionary()
