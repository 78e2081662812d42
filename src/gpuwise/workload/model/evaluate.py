"""Computes the work in a workload at a given batch and sequence: FLOPs and bytes by op, peak memory by category.

Everything is array arithmetic over the distinct ops and buffers, so thousands of sizes cost little more than one. A
multiply-accumulate is two FLOPs; the files in `kernels/ops` define the FLOPs for each kind of op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from gpuwise.core.errors import BadValue
from gpuwise.kernels.registry import KINDS
from gpuwise.workload.model.types import CATEGORIES, DTYPE_BYTES, PHASES, Form, Ints, Workload, ints

__all__ = [
    "Peak",
    "Totals",
    "call_counts",
    "input_bytes",
    "monomials",
    "op_bytes",
    "op_flops",
    "peak_memory",
    "product_values",
    "totals",
]

Array = NDArray[np.float64]


def product_values(workload: Workload, batch: Array | float | None = None, seq: Array | float | None = None) -> Array:
    """Return the value of every product of dimensions, shape (points, products)."""
    _check(workload, batch, seq)
    batch = workload.batch if batch is None else batch
    seq = workload.seq if seq is None else seq
    dims = np.atleast_2d(monomials(batch, seq)) @ workload.dims.T
    padded = np.concatenate([dims, np.ones((dims.shape[0], 1))], axis=1)
    values = np.ones((dims.shape[0], len(workload.products)))
    for factor in _factors_of(workload):
        values *= padded[:, factor]
    return values


def _factors_of(workload: Workload) -> Ints:
    """Return the first dimension of every product, then the second, and so on. Shorter products are padded with the index past
    the last.
    """
    found = _factors.get(workload.form)
    if found is None:
        longest = max(map(len, workload.products), default=0)
        padding = (len(workload.dims),) * longest
        rows = [(*product, *padding[len(product) :]) for product in workload.products]
        found = _factors[workload.form] = np.array(rows, dtype=np.int64).reshape(-1, longest).T
    return found


_factors: WeakKeyDictionary[Form, Ints] = WeakKeyDictionary()


def _check(workload: Workload, batch: Array | float | None, seq: Array | float | None) -> None:
    for name, value, captured in (("batch", batch, workload.batch), ("seq", seq, workload.seq)):
        if value is None:
            continue
        if np.any(np.asarray(value) < 1):
            raise BadValue(
                f"{name} must be at least 1, not {value}",
                hint=f"use the captured {name}, {captured}, or another value of 1 or more",
            )
        if name not in workload.symbols and np.any(np.asarray(value) != captured):
            raise BadValue(
                f"{workload.model} was captured only at {name} {captured}, so {name} {value} cannot be used",
                hint=f"capture it again with --{name} {value}",
            )


def op_flops(workload: Workload, values: Array) -> Array:
    """Return the FLOPs of one call of each distinct op, shape (points, ops)."""
    result = np.zeros((values.shape[0], len(workload.ops)))
    for column, op in enumerate(workload.ops):
        kind = KINDS[op.kind]
        if kind.flops is not None:
            sizes = {name: values[:, row] for name, row in zip(kind.sizes, op.sizes, strict=True)}
            result[:, column] = kind.flops(op, sizes)
    return result


def op_bytes(workload: Workload, values: Array) -> tuple[Array, Array]:
    """Return the bytes read and written by one call of each distinct op, each of shape (points, ops)."""
    moved = _moved.get(workload.form)
    if moved is None:
        moved = _moved[workload.form] = _Moved.of(workload)
    tensor_bytes = values[:, moved.elements] * moved.width
    return moved.reads.of(tensor_bytes), moved.writes.of(tensor_bytes)


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Which columns each op adds up. Equal ones are counted first, because optimizers list thousands."""

    columns: Ints
    times: Ints
    some: NDArray[np.bool_]
    starts: NDArray[np.int64]

    @classmethod
    def over(cls, lists: Sequence[tuple[int, ...]]) -> _Sums:
        counted = [Counter(columns) for columns in lists]
        columns, times = (ints(chain.from_iterable(side)) for side in (counted, (count.values() for count in counted)))
        lengths = ints(map(len, counted))
        some = lengths > 0
        return cls(columns, times, some, (np.cumsum(lengths) - lengths)[some])

    def of(self, values: Array) -> Array:
        result = np.zeros((len(values), len(self.some)))
        result[:, self.some] = np.add.reduceat(values[:, self.columns] * self.times, self.starts, axis=1)
        return result


@dataclass(frozen=True, slots=True, eq=False)
class _Moved:
    """The tensors that ops read and write, at any size; extracted from a workload once."""

    elements: Ints
    width: Array
    reads: _Sums
    writes: _Sums

    @classmethod
    def of(cls, workload: Workload) -> _Moved:
        return cls(
            ints(tensor.elements for tensor in workload.tensors),
            np.array([DTYPE_BYTES[tensor.dtype] for tensor in workload.tensors]),
            _Sums.over([op.reads for op in workload.ops]),
            _Sums.over([op.writes for op in workload.ops]),
        )


_moved: WeakKeyDictionary[Form, _Moved] = WeakKeyDictionary()


def call_counts(workload: Workload) -> Array:
    """Return how often each distinct op is called, shape (phases, ops)."""
    rows = workload.calls.phase * len(workload.ops) + workload.calls.op
    return np.bincount(rows, minlength=len(PHASES) * len(workload.ops)).reshape(len(PHASES), len(workload.ops)).astype(float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Work of a whole step by phase."""

    forward_flops: float
    backward_flops: float
    optimizer_flops: float
    read_bytes: float
    written_bytes: float


def totals(workload: Workload, batch: float | None = None, seq: float | None = None) -> Totals:
    """Return the step's FLOPs by phase and total bytes, at one size."""
    values = product_values(workload, batch, seq)
    counts = call_counts(workload)
    flops = counts @ op_flops(workload, values)[0]
    read, written = op_bytes(workload, values)
    return Totals(
        forward_flops=float(flops[0]),
        backward_flops=float(flops[1]),
        optimizer_flops=float(flops[2]),
        read_bytes=float(counts.sum(axis=0) @ read[0]),
        written_bytes=float(counts.sum(axis=0) @ written[0]),
    )


def input_bytes(workload: Workload, values: Array) -> Array:
    """Return the bytes that come from the host in each step."""
    inputs = workload.buffers.tensor[workload.buffers.category == CATEGORIES.index("input")].tolist()
    total = np.zeros(values.shape[0])
    for row in inputs:
        tensor = workload.tensors[row]
        total += values[:, tensor.elements] * DTYPE_BYTES[tensor.dtype]
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The largest sum of live buffers during the step, by category, and the call at which it occurs."""

    total_bytes: float
    by_category: dict[str, float]
    call: int


def peak_memory(workload: Workload, batch: float | None = None, seq: float | None = None) -> Peak:
    """Return the allocated peak of a step at one size, from the lifetimes of its buffers."""
    values = product_values(workload, batch, seq)[0]
    width = np.array([DTYPE_BYTES[tensor.dtype] for tensor in workload.tensors])
    tensor_bytes = values[[tensor.elements for tensor in workload.tensors]] * width
    buffers = workload.buffers
    sizes = tensor_bytes[buffers.tensor]
    change = np.zeros((len(CATEGORIES), len(workload.calls) + 2))
    np.add.at(change, (buffers.category, buffers.born), sizes)
    np.add.at(change, (buffers.category, buffers.died), -sizes)
    live = np.cumsum(change, axis=1)[:, : max(1, len(workload.calls))]
    call = int(np.argmax(live.sum(axis=0)))
    by_category = {name: float(live[row, call]) for row, name in enumerate(CATEGORIES)}
    return Peak(total_bytes=float(live[:, call].sum()), by_category=by_category, call=call)


def monomials(batch: NDArray[np.float64] | float, seq: NDArray[np.float64] | float | None) -> NDArray[np.float64]:
    """[1, batch, seq, batch·seq] along the last axis; a workload without a sequence has seq = 0."""
    b = np.asarray(batch, dtype=np.float64)
    b, s = np.broadcast_arrays(b, np.asarray(0.0 if seq is None else seq, dtype=np.float64))
    return np.stack([np.ones_like(b), b, s, b * s], axis=-1)
