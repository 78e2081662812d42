"""A workload as columns: the form in which the zoo stores one and in which a stored one is rewritten.

Arrays of plain numbers instead of thousands of small objects, so that loading and rewriting take milliseconds.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import repeat
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpuwise.workload.types import Buffer, Call, Op, TensorSpec, Workload

__all__ = ["Graph", "Ints", "gathered", "graph_of", "ints", "no_collection", "slots", "workload_of"]

Ints = NDArray[np.int64]
_Made = TypeVar("_Made", Call, Buffer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The calls and buffers of a workload as arrays. `refs` are the buffers of every call, reads then writes, end to end.

    `trained` holds the buffers of the weights that an optimizer updates and those of their gradients, in step, a pair of
    rows for each group of one dtype: with it any optimizer can be written behind a graph that has none.
    """

    dims: list[list[float]]
    products: list[tuple[int, ...]]
    tensors: list[TensorSpec]
    ops: list[Op]
    modules: tuple[str, ...]
    op_of: Ints
    phase_counts: tuple[int, int, int]
    module_of: Ints
    refs: Ints
    tensor_of: Ints
    category_of: Ints
    born: Ints
    died: Ints
    trained: tuple[tuple[Ints, Ints], ...] = ()


def ints(values: Iterable[int]) -> Ints:
    """These numbers as an array."""
    return np.fromiter(values, dtype=np.int64)


def graph_of(workload: Workload) -> Graph:
    """The columns of a workload whose phases follow one another."""
    phases = [call.phase for call in workload.calls]
    if phases != sorted(phases):
        raise ValueError("the phases of this workload alternate")
    return Graph(
        dims=[[float(value) for value in row] for row in workload.dims],
        products=list(workload.products),
        tensors=list(workload.tensors),
        ops=list(workload.ops),
        modules=workload.modules,
        op_of=ints(call.op for call in workload.calls),
        phase_counts=(phases.count(0), phases.count(1), phases.count(2)),
        module_of=ints(call.module for call in workload.calls),
        refs=ints(ref for call in workload.calls for ref in (*call.reads, *call.writes)),
        tensor_of=ints(buffer.tensor for buffer in workload.buffers),
        category_of=ints(buffer.category for buffer in workload.buffers),
        born=ints(buffer.born for buffer in workload.buffers),
        died=ints(buffer.died for buffer in workload.buffers),
    )


def workload_of(graph: Graph, **about: Any) -> Workload:
    """The workload of these columns; `about` are its name, mode and the like."""
    with no_collection():
        reads, writes = _refs_by_call(graph)
        phase_of = np.repeat(np.arange(3), graph.phase_counts)
        return Workload(
            dims=np.array(graph.dims, dtype=np.float64).reshape(-1, 4),
            products=tuple(graph.products),
            tensors=tuple(graph.tensors),
            ops=tuple(graph.ops),
            modules=graph.modules,
            calls=_made(Call, graph.op_of.tolist(), phase_of.tolist(), graph.module_of.tolist(), reads, writes),
            buffers=_made(Buffer, *(column.tolist() for column in (graph.tensor_of, graph.category_of, graph.born, graph.died))),
            **about,
        )


def _made(kind: type[_Made], *columns: Iterable[Any]) -> tuple[_Made, ...]:
    """Objects of a frozen class, filled field by field: a third of the time of calling the class for each."""
    first = list(columns[0])
    objects = list(map(object.__new__, repeat(kind, len(first))))
    for name, column in zip((field.name for field in fields(kind)), (first, *columns[1:]), strict=True):
        deque(map(getattr(kind, name).__set__, objects, column), maxlen=0)
    return tuple(objects)


def _refs_by_call(graph: Graph) -> tuple[Iterable[tuple[int, ...]], Iterable[tuple[int, ...]]]:
    """The buffers each call reads, and those it writes."""
    flat = tuple(graph.refs.tolist())
    read = ints(len(op.reads) for op in graph.ops)[graph.op_of]
    written = ints(len(op.writes) for op in graph.ops)[graph.op_of]
    ends = np.cumsum(read + written)
    middles = ends - written
    starts, middle, end = (middles - read).tolist(), middles.tolist(), ends.tolist()
    return map(flat.__getitem__, map(slice, starts, middle)), map(flat.__getitem__, map(slice, middle, end))


@contextmanager
def no_collection() -> Iterator[None]:
    """Pause the garbage collector: it would search thousands of new objects for garbage that is not there."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def slots(graph: Graph) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Of every reference in `refs`: its call, the tensor its op names there, and whether it is written."""
    arity = ints(len(op.reads) + len(op.writes) for op in graph.ops)
    call = np.repeat(np.arange(len(graph.op_of)), arity[graph.op_of])
    tensor = gathered([[*op.reads, *op.writes] for op in graph.ops], graph.op_of)
    written = gathered([[0] * len(op.reads) + [1] * len(op.writes) for op in graph.ops], graph.op_of)
    return call, tensor, written.astype(bool)


def gathered(rows: list[list[int]], order: Ints) -> Ints:
    """The rows of a ragged table in this order, end to end."""
    if not len(order):
        return ints(())
    lengths = ints(len(row) for row in rows)
    flat = ints(value for row in rows for value in row)
    starts = np.cumsum(lengths) - lengths
    counts = lengths[order]
    ends = np.cumsum(counts)
    within = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
    found: Ints = flat[np.repeat(starts[order], counts) + within]
    return found
