"""Adds the casts around softmax for bf16: on CUDA, softmax from fp16 to fp32 and back casts in its own kernel, but from bf16
it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpuwise.workload.model.edit import Graph
from gpuwise.workload.model.types import CATEGORIES, Ints, Op, TensorSpec, ints

__all__ = ["with_softmax_casts"]

_FORWARD = ("_softmax", "_log_softmax")
_BACKWARD = ("_softmax_backward_data", "_log_softmax_backward_data")
_TEMPORARY = CATEGORIES.index("temporary")


def with_softmax_casts(graph: Graph) -> Graph:
    """Add a cast before each softmax that reads fp16 and writes fp32, and one after each whose backward pass does the reverse."""
    before = [op.name in _FORWARD and _changes(graph, op, "fp16", "fp32") for op in graph.ops]
    after = [op.name in _BACKWARD and _changes(graph, op, "fp32", "fp16") for op in graph.ops]
    if not any(before) and not any(after):
        return graph
    first, last = (np.array(rows)[graph.op_of] for rows in (before, after))
    place = np.arange(len(graph.op_of)) + np.cumsum(first) + np.cumsum(last) - last  # the new position of each call
    return _Editor(graph, before, after).inserted(first, last, place)


def _changes(graph: Graph, op: Op, source: str, target: str) -> bool:
    return graph.tensors[op.reads[0]].dtype == source and graph.tensors[op.writes[0]].dtype == target


class _Editor:
    """The ops that the two forms of a softmax become, and their calls."""

    def __init__(self, graph: Graph, before: Sequence[bool], after: Sequence[bool]) -> None:
        self._graph = graph
        self._tensors, self._ops = list(graph.tensors), list(graph.ops)
        self._cast: dict[int, int] = {}  # the cast op for each softmax op
        for row, op in enumerate(graph.ops):
            if before[row] or after[row]:
                narrow = op.reads[0] if before[row] else op.writes[0]
                size = graph.tensors[narrow].elements
                wide = len(self._tensors)
                self._tensors.append(TensorSpec("fp32", size))
                self._cast[row] = len(self._ops)
                sides = ((narrow,), (wide,)) if before[row] else ((wide,), (narrow,))
                self._ops.append(Op("cast", "_to_copy", self._tensors[sides[1][0]].dtype, (size,), {}, *sides))
                reads = (wide, *op.reads[1:]) if before[row] else op.reads
                writes = op.writes if before[row] else (wide, *op.writes[1:])
                self._ops[row] = replace(op, dtype="fp32", reads=reads, writes=writes)

    def inserted(self, first: Ints, last: Ints, place: Ints) -> Graph:
        graph = self._graph
        rows: list[int] = []
        modules: list[int] = []
        refs: list[int] = []
        wide: list[int] = []
        born: list[int] = []  # the calls that create the wide tensors
        moved: list[int] = []  # gradients that the cast now writes
        arity = ints(len(op.reads) + len(op.writes) for op in graph.ops)[graph.op_of]
        parts = np.split(graph.refs, np.cumsum(arity)[:-1])
        for call, (row, module, part) in enumerate(zip(graph.op_of.tolist(), graph.module_of.tolist(), parts, strict=True)):
            used = part.tolist()
            if not first[call] and not last[call]:
                rows.append(row)
                modules.append(module)
                refs += used
                continue
            new = len(graph.born) + len(wide)
            count = len(graph.ops[row].reads)
            wide.append(self._ops[self._cast[row]].writes[0] if first[call] else self._ops[row].writes[0])
            born.append(int(place[call]) - int(first[call]))
            modules += [module, module]
            if first[call]:
                rows += [self._cast[row], row]
                refs += [used[0], new, new, *used[1:]]
            else:
                rows += [row, self._cast[row]]
                refs += [*used[:count], new, *used[count + 1 :], new, used[count]]
                moved.append(used[count])
        return self._made(rows, modules, refs, wide, born, place, moved, ints((first | last).astype(np.int64)))

    def _made(
        self,
        rows: list[int],
        modules: list[int],
        refs: list[int],
        wide: list[int],
        born: list[int],
        place: Ints,
        moved: list[int],
        added: Ints,
    ) -> Graph:
        graph, end = self._graph, len(rows)
        starts = np.append(place, end)[graph.born]
        starts[moved] += 1
        ends = np.concatenate(([0], place[:-1] + 1, [end]))[graph.died]
        counts = [int(part.sum()) for part in np.split(added, np.cumsum(graph.phase_counts)[:-1])]
        forward, backward, optimizer = (old + new for old, new in zip(graph.phase_counts, counts, strict=True))
        return replace(
            graph,
            tensors=self._tensors,
            ops=self._ops,
            op_of=ints(rows),
            phase_counts=(forward, backward, optimizer),
            module_of=ints(modules),
            refs=ints(refs),
            tensor_of=np.append(graph.tensor_of, ints(wide)),
            category_of=np.append(graph.category_of, np.full(len(wide), _TEMPORARY)),
            born=np.append(starts, ints(born)),
            died=np.append(ends, ints(born) + 2),
        )
