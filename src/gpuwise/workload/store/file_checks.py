"""Checks whether a workload read from a file is valid: known names, possible sizes, and references that exist.

A damaged or foreign file fails here with a clear message, and not in the middle of an answer.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gpuwise.kernels.registry import KINDS
from gpuwise.workload.model.evaluate import monomials
from gpuwise.workload.model.types import CATEGORIES, DTYPE_BYTES, MODES, PHASES, PRECISIONS, Ints, Op, Workload, ints

__all__ = ["check"]

_LARGEST = 2**31
_LARGEST_DIM = 1e15
_SYMBOLS = ((), ("batch",), ("batch", "seq"))


def check(workload: Workload) -> None:
    """Raise ValueError with the reason if the workload is invalid."""
    _check_head(workload)
    _check_sizes(workload)
    for tensor in workload.tensors:
        _one_of("dtype of a tensor", tensor.dtype, DTYPE_BYTES)
    _within("tensor", (tensor.elements for tensor in workload.tensors), len(workload.products))
    for op in workload.ops:
        _check_op(op, len(workload.products), len(workload.tensors))
    _check_calls(workload)
    _check_buffers(workload)


def _check_head(workload: Workload) -> None:
    _one_of("mode", workload.mode, MODES)
    _one_of("precision", workload.precision, PRECISIONS)
    if workload.symbols not in _SYMBOLS:
        raise ValueError(f"symbols {list(workload.symbols)!r:.60} must be [], [batch] or [batch, seq]")
    if not 1 <= workload.batch < _LARGEST:
        raise ValueError(f"the batch is {workload.batch:.6g}; it must be at least 1 and below 2^31")
    if workload.seq is None:
        if "seq" in workload.symbols:
            raise ValueError("the workload is symbolic in seq but has no sequence")
    elif not 1 <= workload.seq < _LARGEST:
        raise ValueError(f"the sequence is {workload.seq:.6g}; it must be at least 1 and below 2^31")
    if not 0 <= workload.parameters <= _LARGEST_DIM:
        raise ValueError(f"the number of parameters is {str(workload.parameters)[:20]}; it must be from 0 to {_LARGEST_DIM:g}")


def _check_sizes(workload: Workload) -> None:
    """Check that every dimension is a valid size at the file's batch and sequence."""
    _within("product", (dim for product in workload.products for dim in product), len(workload.dims))
    with np.errstate(all="ignore"):
        sizes = workload.dims @ monomials(workload.batch, workload.seq)
        good = np.isfinite(workload.dims).all(axis=1) & np.isfinite(sizes) & (sizes >= 0) & (sizes <= _LARGEST_DIM)
        if not good.all():
            row = int(np.argmin(good))
            raise ValueError(f"dimension {row} is {sizes[row]:g} at the size of the file")
        products = [float(np.prod(sizes[list(product)])) for product in workload.products]
    if not np.isfinite(products).all():
        raise ValueError("a product of dimensions is not finite")


def _check_op(op: Op, products: int, tensors: int) -> None:
    _one_of("kind of op", op.kind, KINDS)
    _one_of(f"dtype of {op.kind}", op.dtype, DTYPE_BYTES)
    kind = KINDS[op.kind]
    if len(op.sizes) != len(kind.sizes):
        raise ValueError(f"a {op.kind} has {len(op.sizes)} sizes instead of {len(kind.sizes)}")
    _within("op", op.sizes, products)
    _within("op", (*op.reads, *op.writes), tensors)
    for name in kind.attrs:
        if name not in op.attrs:
            raise ValueError(f"a {op.kind} has no {name}")
    if kind.passes:
        _one_of(f"pass of {op.kind}", str(op.attrs.get("pass")), kind.passes)
    if op.kind == "conv":
        groups = op.attrs["groups"]
        if not isinstance(groups, int) or groups < 1:
            raise ValueError(f"a conv has {groups!r:.20} groups")
        if not isinstance(op.attrs["stride"], tuple):
            raise ValueError("the stride of a conv is not a list")


def _check_calls(workload: Workload) -> None:
    calls, ops = workload.calls, workload.ops
    if not (_inside(calls.op, len(ops)) and _inside(calls.phase, len(PHASES)) and _inside(calls.module, len(workload.modules))):
        raise ValueError("a call refers to an op, phase or module that does not exist")
    reads, writes = ints(len(op.reads) for op in ops), ints(len(op.writes) for op in ops)
    if np.any(calls.read_count != reads[calls.op]) or np.any(calls.written_count != writes[calls.op]):
        raise ValueError("a call and its op read or write different numbers of buffers")
    if not _inside(calls.refs, len(workload.buffers)):
        raise ValueError("a call refers to a buffer that does not exist")


def _check_buffers(workload: Workload) -> None:
    buffers = workload.buffers
    _within("buffer", buffers.tensor.tolist(), len(workload.tensors))
    for category in {*buffers.category.tolist()}:
        if not 0 <= category < len(CATEGORIES):
            raise ValueError(f"a buffer has the unknown category {category}; there are only {len(CATEGORIES)} categories")
    if np.any(buffers.born < 0) or np.any(buffers.died < buffers.born) or np.any(buffers.died > len(workload.calls)):
        raise ValueError("a buffer is created or freed outside the step")


def _inside(rows: Ints, count: int) -> bool:
    return bool(np.all((rows >= 0) & (rows < count)))


def _one_of(what: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise ValueError(f"'{value:.40}' is not a valid {what}; known values are {', '.join(known)}")


def _within(what: str, values: Iterable[int], count: int) -> None:
    if any(not 0 <= value < count for value in values):
        raise ValueError(f"a {what} refers to a row that does not exist")
