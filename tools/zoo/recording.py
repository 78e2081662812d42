"""Captures a few graphs of a zoo model, from which `workload.transform.relatives` derives the rest, and checks that it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuwise.workload.capture.torch.step import Subject, capture
from gpuwise.workload.model.edit import Graph, graph_of, slots, workload_of
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.symbols import Description, join
from gpuwise.workload.model.types import Settings, Workload
from gpuwise.workload.transform.relatives import narrowed, without
from zoo.model import Model, Wish

__all__ = ["Recorded", "difference", "points_of", "record", "recordings", "unseen"]

Point = tuple[int, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One stored graph, and the workload without optimizer that it stands for."""

    wish: Wish
    graph: Graph
    workload: Workload
    batch: int
    seq: int | None


def recordings(model: Model) -> Iterator[Recorded]:
    """The graphs to store: fp32 and mixed precision, and one entirely in 16 bits if the fp32 graph does not determine it."""
    for mode in model.modes:
        for phase in model.phases if mode == "infer" else ("",):
            full = record(model, Wish(mode, "fp32", phase))
            yield full
            if not phase:
                yield record(model, Wish(mode, "amp", phase))
            if not _is_narrowed(model, full):
                yield record(model, Wish(mode, "bf16", phase))


def _is_narrowed(model: Model, full: Recorded) -> bool:
    """Return whether the 16-bit graph is the fp32 graph with narrower tensors, judged at one size."""
    wish = replace(full.wish, precision="bf16")
    point = points_of(model.subject(wish))[0]
    low = record(model, wish, [point]).workload
    derived = workload_of(narrowed(full.graph, "bf16"), **_about(full.workload))
    return not difference(derived, low, point)


def _about(workload: Workload) -> dict[str, Any]:
    keys = ("model", "source", "mode", "precision", "optimizer", "options", "batch", "seq", "symbols", "parameters", "notes")
    return {key: getattr(workload, key) for key in keys}


def points_of(subject: Subject) -> list[Point]:
    """Return the sizes to fit to and, as the last one, the size on which the fit is checked."""
    if subject.seq is None:
        return [(2, None), (3, None), (5, None)]
    short, long, check = subject.seqs
    return [(2, short), (3, short), (2, long), (3, long), (5, check)]


def unseen(subject: Subject) -> Point:
    """Return a size that was not used in the fit, for `--verify`."""
    if subject.seq is None:
        return (7, None)
    short, long, check = subject.seqs
    return (7, check + long - short)


def record(model: Model, wish: Wish, points: Sequence[Point] | None = None) -> Recorded:
    """Capture at these points and join the results. A graph whose sizes are not affine is captured at the usual size instead."""
    subject = model.subject(wish)
    usual = (model.batch, model.seq) if not wish.phase else (subject.batch, subject.seq)
    workload = _joined(model, wish, subject, points or points_of(subject))
    if points is None and not workload.symbols:
        fixed = _joined(model, wish, subject, [usual])
        workload = replace(fixed, notes=tuple(dict.fromkeys((*workload.notes, *fixed.notes))))
    graph = _without_sgd(graph_of(workload)) if wish.mode == "train" else graph_of(workload)
    return Recorded(
        wish=wish,
        graph=graph,
        workload=workload_of(graph, **_about(workload)),
        batch=usual[0],
        seq=usual[1] if subject.seq else None,
    )


def _joined(model: Model, wish: Wish, subject: Subject, points: Sequence[Point]) -> Workload:
    """Return one workload with plain SGD, which shows what an optimizer updates."""
    captures, parameters = capture(subject, Settings(mode=wish.mode, precision=wish.precision, optimizer="sgd"), points)
    about = Description(
        model=model.name,
        source="zoo",
        mode=wish.mode,
        precision=wish.precision,
        optimizer="none" if wish.mode == "train" else "",
        options={},
        parameters=parameters,
    )
    return join(captures, about)


def _without_sgd(graph: Graph) -> Graph:
    """Return the graph without its updates, each of which reads weights and gradients and writes the weights."""
    names = np.array([op.name for op in graph.ops])
    late = np.arange(len(graph.op_of)) >= sum(graph.phase_counts[:2])
    updates = (names[graph.op_of] == "_foreach_add_") & late
    call, _, _ = slots(graph)
    trained = []
    for number in np.flatnonzero(updates):
        weights, gradients, _ = np.split(graph.refs[call == number], 3)
        trained.append((weights, gradients))
    return without(replace(graph, trained=tuple(trained)), updates, {})


# ---------------------------------------------------------------- comparing


def difference(ours: Workload, direct: Workload, point: Point) -> str:
    """Where two workloads differ at this size. Empty if they have the same calls on buffers of the same sizes."""
    mine, other = _Readout(ours, point), _Readout(direct, point)
    for what in ("calls", "buffers"):
        left, right = getattr(mine, what)(), getattr(other, what)()
        if len(left) != len(right):
            return f"{len(left)} {what} against {len(right)}"
        for number, (one, two) in enumerate(zip(left, right, strict=True)):
            if one != two:
                return f"{what} {number}: {one} against {two}"
    return ""


class _Readout:
    """A workload at one size in plain numbers."""

    def __init__(self, workload: Workload, point: Point) -> None:
        self._workload = workload
        symbolic = "batch" in workload.symbols
        self._values = product_values(workload, *(point if symbolic else (None, None)))[0]

    def _tensor(self, row: int) -> tuple[str, float]:
        tensor = self._workload.tensors[row]
        return tensor.dtype, round(float(self._values[tensor.elements]), 3)

    def calls(self) -> list[Any]:
        found = []
        for call in self._workload.calls:
            op = self._workload.ops[call.op]
            sizes = tuple(round(float(self._values[row]), 3) for row in op.sizes)
            tensors = tuple(self._tensor(row) for row in (*op.reads, *op.writes))
            head = (op.kind, op.name, op.dtype, sizes, dict(op.attrs), tensors, call.phase, self._workload.modules[call.module])
            found.append((head, call.reads, call.writes))
        return found

    def buffers(self) -> list[Any]:
        return [(self._tensor(row.tensor), row.category, row.born, row.died) for row in self._workload.buffers]
