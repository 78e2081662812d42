"""Editable forms of a workload: as columns, as the zoo stores it, or as a draft that is edited call by call."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwise.workload.model.types import (
    CATEGORIES,
    Buffer,
    Buffers,
    Call,
    Calls,
    Ints,
    Op,
    TensorSpec,
    Workload,
    ints,
    no_collection,
)

__all__ = ["Draft", "Graph", "graph_of", "makers", "slots", "spread", "workload_of"]

# ---------------------------------------------------------------- as columns
# A workload as columns: the form in which the zoo stores workloads and rewrites them.
#
# Arrays of plain numbers instead of thousands of small objects, so that loading and rewriting take milliseconds.


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The calls and buffers of a workload as arrays. `refs` are the buffers of every call, reads then writes, concatenated.

    `trained` holds the buffers of the weights that an optimizer updates and those of their gradients, in matching order, as a
    pair of rows for each dtype. With it, any optimizer can be appended to a graph that has none.
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
    """Return the columns of a workload whose phases follow one another."""
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
    """Return the workload for these columns; `about` holds its name, mode and so on."""
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
    """Return for every reference in `refs` its call, the tensor that its op names there, and whether it is written."""
    ops = graph.ops
    sides = ints(len(side) for op in ops for side in (op.reads, op.writes))
    arity = sides[::2] + sides[1::2]
    call = np.repeat(np.arange(len(graph.op_of)), arity[graph.op_of])
    tensor = ints(chain.from_iterable(side for op in ops for side in (op.reads, op.writes)))
    written = np.repeat(np.tile([False, True], len(ops)), sides)
    at = spread(arity, graph.op_of)
    return call, tensor[at], written[at]


def spread(lengths: Ints, order: Ints) -> Ints:
    """Return the positions of a table's entries if its rows, of these lengths, are concatenated in this order."""
    starts = np.cumsum(lengths) - lengths
    counts = lengths[order]
    ends = np.cumsum(counts)
    return np.arange(counts.sum()) + np.repeat(starts[order] - ends + counts, counts)


# ---------------------------------------------------------------- call by call
# A workload taken apart, so that calls can be added, changed and removed, and reassembled.
#
# The editing code says what runs and what it reads and writes. Buffer lifetimes follow: existing buffers keep their place among
# the calls and live longer if a new call needs them; new buffers live from their first use to their last.

_LASTING = tuple(CATEGORIES.index(name) for name in ("weight", "gradient", "optimizer", "input"))


def makers(workload: Workload) -> dict[int, int]:
    """Return the call that first writes each buffer. This may be later than the allocation, because an op with several kernels
    allocates all its buffers first.
    """
    found: dict[int, int] = {}
    for number, call in enumerate(workload.calls):
        for row in call.writes:
            found.setdefault(row, number)
    return found


class Draft:
    """Sizes, tensors and ops are looked up or added. Calls are changed by their number in the original workload."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.calls: list[Call | None] = list(workload.calls)
        self.buffers: list[Buffer] = list(workload.buffers)
        self.tensors: list[TensorSpec] = list(workload.tensors)
        self.ops: list[Op] = list(workload.ops)
        self._dims: list[tuple[float, ...]] = [tuple(row) for row in workload.dims.tolist()]
        self._products: list[tuple[int, ...]] = list(workload.products)
        self._before: dict[int, list[Call]] = defaultdict(list)
        self._after: dict[int, list[Call]] = defaultdict(list)
        self._by_use: set[int] = set()
        self._together: list[tuple[int, ...]] = []
        self._known: dict[object, int] = {}
        self._end = len(self.calls)

    # ------------------------------------------------------------ sizes, tensors, ops

    def _row(self, rows: list[Any], value: Any, key: object) -> int:
        """Return the index of this value in a table, adding it if it is new."""
        if key not in self._known:
            rows.append(value)
            self._known[key] = len(rows) - 1
        return self._known[key]

    def scaled(self, product: int, factor: float) -> int:
        """Return this size times a constant."""
        dim = self._row(self._dims, (factor, 0.0, 0.0, 0.0), ("dim", factor))
        dims = (*self._products[product], dim)
        return self._row(self._products, dims, ("product", dims))

    def times(self, *products: int) -> int:
        """Return the product of these sizes."""
        dims = tuple(dim for product in products for dim in self._products[product])
        return self._row(self._products, dims, ("product", dims))

    def constant(self, value: float) -> int:
        """Return a constant size."""
        dim = self._row(self._dims, (value, 0.0, 0.0, 0.0), ("dim", value))
        return self._row(self._products, (dim,), ("product", (dim,)))

    def value(self, product: int) -> float | None:
        """Return the size if it depends on neither batch nor sequence, otherwise None."""
        rows = [self._dims[dim] for dim in self._products[product]]
        return None if any(any(row[1:]) for row in rows) else float(math.prod([row[0] for row in rows]))

    def factors(self, product: int) -> tuple[int, int] | None:
        """Return the sizes of a matrix with this many elements, without either of its two smallest dimensions; None for a
        vector.

        A size does not record the order of its dimensions. The smallest are the last of a convolution; a matrix has only two.
        """
        dims = [dim for dim in self._products[product] if self._dims[dim] != (1.0, 0.0, 0.0, 0.0)]
        dims.sort(key=lambda dim: -self._dims[dim][0])
        if len(dims) < 2:
            return None
        shorter = (tuple(dims[:-1]), (*dims[:-2], dims[-1]))
        row, column = (self._row(self._products, kept, ("product", kept)) for kept in shorter)
        return row, column

    def tensor(self, dtype: str, product: int) -> int:
        """Return a tensor with this many elements."""
        return self._row(self.tensors, TensorSpec(dtype, product), ("tensor", dtype, product))

    def op(self, op: Op) -> int:
        """Return the row of this op."""
        key = ("op", op.kind, op.name, op.dtype, op.sizes, tuple(sorted(op.attrs.items())), op.reads, op.writes)
        return self._row(self.ops, op, key)

    def matmul(self, name: str, dtype: str, sizes: tuple[int, int, int, int], reads: tuple[int, ...], write: int) -> int:
        """Return a matrix product of `sizes` (batch, m, n, k)."""
        return self.op(Op("matmul", name, dtype, sizes, {}, reads, (write,)))

    # ------------------------------------------------------------ calls and buffers

    def buffer(self, tensor: int, category: str, *, stays: bool = False, during: tuple[int, int] | None = None) -> int:
        """Add a buffer that lives for the whole step, during old calls from one number to another, or from its first use to its
        last.
        """
        first, last = (0, self._end - 1) if stays else during or (-1, -2)
        self.buffers.append(Buffer(tensor, CATEGORIES.index(category), first, last + 1))
        return len(self.buffers) - 1

    def before(self, number: int, call: Call) -> None:
        """Add a call before this one, after those already added there."""
        self._before[number].append(call)

    def after(self, number: int, call: Call) -> None:
        """Add a call after this one, after those already added there."""
        self._after[number].append(call)

    def drop(self, number: int) -> None:
        """Remove this call and everything that no other call needs."""
        call = self.calls[number]
        if call is not None:
            self._by_use.update(row for row in (*call.reads, *call.writes) if self.buffers[row].category not in _LASTING)
            self.calls[number] = None

    def by_use(self, buffers: Iterable[int]) -> None:
        """Let these buffers live until the last call that uses them, and remove unused ones."""
        self._by_use.update(buffers)

    def together(self, buffers: Iterable[int]) -> None:
        """Let these buffers be freed together."""
        self._together.append(tuple(buffers))

    def done(self, **about: Any) -> Workload:
        """Return the edited workload; `about` holds the fields that change."""
        with no_collection():
            calls, place, kept = self._in_order()
            moved = Calls.of(calls)
            buffers, number = self._lifetimes(moved, place, kept)
        return replace(
            self.workload,
            dims=np.array(self._dims, dtype=np.float64).reshape(-1, 4),
            products=tuple(self._products),
            tensors=tuple(self.tensors),
            ops=tuple(self.ops),
            calls=replace(moved, refs=number[moved.refs]),
            buffers=buffers,
            **about,
        )

    def _in_order(self) -> tuple[list[Call], list[int], list[bool]]:
        """Return all calls, the position that each old one has or would have, and whether it is still there."""
        calls: list[Call] = []
        place: list[int] = []
        for number, call in enumerate(self.calls):
            calls += self._before.get(number, ())
            place.append(len(calls))
            calls += [call] if call is not None else []
            calls += self._after.get(number, ())
        calls += self._before.get(len(self.calls), ())
        return calls, [*place, len(calls)], [call is not None for call in self.calls]

    def _lifetimes(self, calls: Calls, place: Sequence[int], kept: Sequence[bool]) -> tuple[Buffers, Ints]:
        """Return the remaining buffers, and the new number of each old one."""
        end, old_end = len(calls), len(self.calls)
        old = Buffers.of(self.buffers)
        position = np.repeat(np.arange(end), calls.read_count + calls.written_count)
        first, last = np.full(len(old), -1), np.zeros(len(old), dtype=np.int64)
        first[calls.refs[::-1]] = position[::-1]  # if there are several, the last one written wins
        last[calls.refs] = position + 1
        for rows in self._together:
            last[[*rows]] = last[[*rows]].max()
        by_use = old.born < 0
        by_use[[*self._by_use]] = True
        spots = ints(place)
        ends = np.concatenate([[0], spots[:-1] + np.array(kept, dtype=np.int64)])
        died = np.where(old.died >= old_end, end, ends[np.clip(old.died, 0, old_end)])
        born = np.where(by_use, np.where(old.born == 0, 0, first), spots[np.maximum(old.born, 0)])
        found = Buffers(tensor=old.tensor, category=old.category, born=born, died=np.where(by_use, last, np.maximum(died, last)))
        left = ~by_use | (first >= 0)
        number = np.where(left, np.cumsum(left) - 1, -1)
        return replace(found, **{name: getattr(found, name)[left] for name in ("tensor", "category", "born", "died")}), number
