"""A workload as columns: the form in which the zoo stores one and in which a stored one is rewritten.

Arrays of plain numbers instead of thousands of small objects, so that loading and rewriting take milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwise.workload.model.rows import Ints, ints
from gpuwise.workload.model.types import Buffers, Calls, Op, TensorSpec, Workload

__all__ = ["Graph", "graph_of", "slots", "spread", "workload_of"]


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


def graph_of(workload: Workload) -> Graph:
    """The columns of a workload whose phases follow one another."""
    calls, buffers = workload.calls, workload.buffers
    if np.any(np.diff(calls.phase) < 0):
        raise ValueError("the phases of this workload alternate")
    forward, backward, optimizer = np.bincount(calls.phase, minlength=3).tolist()
    return Graph(
        dims=[[float(value) for value in row] for row in workload.dims],
        products=list(workload.products),
        tensors=list(workload.tensors),
        ops=list(workload.ops),
        modules=workload.modules,
        op_of=calls.op,
        phase_counts=(forward, backward, optimizer),
        module_of=calls.module,
        refs=calls.refs,
        tensor_of=buffers.tensor,
        category_of=buffers.category,
        born=buffers.born,
        died=buffers.died,
    )


def workload_of(graph: Graph, **about: Any) -> Workload:
    """The workload of these columns; `about` are its name, mode and the like."""
    return Workload(
        dims=np.array(graph.dims, dtype=np.float64).reshape(-1, 4),
        products=tuple(graph.products),
        tensors=tuple(graph.tensors),
        ops=tuple(graph.ops),
        modules=graph.modules,
        calls=Calls(
            op=graph.op_of,
            phase=np.repeat(np.arange(3), graph.phase_counts),
            module=graph.module_of,
            read_count=ints(len(op.reads) for op in graph.ops)[graph.op_of],
            written_count=ints(len(op.writes) for op in graph.ops)[graph.op_of],
            refs=graph.refs,
        ),
        buffers=Buffers(tensor=graph.tensor_of, category=graph.category_of, born=graph.born, died=graph.died),
        **about,
    )


def slots(graph: Graph) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Of every reference in `refs`: its call, the tensor its op names there, and whether it is written."""
    ops = graph.ops
    sides = ints(len(side) for op in ops for side in (op.reads, op.writes))
    arity = sides[::2] + sides[1::2]
    call = np.repeat(np.arange(len(graph.op_of)), arity[graph.op_of])
    tensor = ints(chain.from_iterable(side for op in ops for side in (op.reads, op.writes)))
    written = np.repeat(np.tile([False, True], len(ops)), sides)
    at = spread(arity, graph.op_of)
    return call, tensor[at], written[at]


def spread(lengths: Ints, order: Ints) -> Ints:
    """Where the entries of a table with rows of these lengths stand, when its rows are put end to end in this order."""
    starts = np.cumsum(lengths) - lengths
    counts = lengths[order]
    ends = np.cumsum(counts)
    return np.arange(counts.sum()) + np.repeat(starts[order] - ends + counts, counts)
