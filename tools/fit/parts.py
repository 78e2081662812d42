"""The rows of a problem grouped by GPU and power limit, with equal ops merged, so that evaluating them thousands of times is
cheap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuwise.hardware.types import Gpu
from gpuwise.kernels.times import gpus_of
from gpuwise.kernels.types import Array, Gpus, Group, Ops

from .curves import Curve
from .rows import OperatorRows, StepRow

__all__ = ["KINDS", "Part", "parts_of"]

KINDS = ("conv", "matmul", "attention", "rnn", "memory_bound")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """All rows for one GPU at one power limit, with the distinct ops and how often each row runs them."""

    gpu: str
    gpus: Gpus
    ops: Ops
    row: Array
    op: Array
    count: Array


def parts_of(steps: Sequence[StepRow], operators: Sequence[OperatorRows], curves: Sequence[Curve]) -> tuple[Array, list[Part]]:
    """The rows by GPU and power limit, with equal ops merged, and the GPU of each row."""
    members: dict[tuple[str, float], list[tuple[Ops, Array, Array]]] = defaultdict(list)  # ops, and their rows and counts
    gpus, end = {}, 0

    def add(gpu: Gpu, limit: float, ops: Ops, rows: Array, counts: Array) -> None:
        nonlocal end
        gpus[gpu.name] = gpu
        members[(gpu.name, limit)].append((ops, rows + end, counts))
        end += int(rows.max()) + 1

    for step in steps:
        add(step.question.gpu, np.inf, step.ops, np.zeros(step.ops.count, int), step.calls)
    for entry in operators:
        add(entry.gpu, np.inf, entry.ops, np.arange(entry.ops.count), np.ones(entry.ops.count))
    for curve in curves:
        for limit in curve.limits_watts:
            add(curve.gpu, limit, curve.ops, np.zeros(curve.ops.count, int), curve.calls)
    names, parts = np.empty(end, object), []
    for (name, limit), own in members.items():
        distinct = {id(ops): ops for ops, _, _ in own}
        ops, where = _distinct(list(distinct.values()))
        places = dict(zip(distinct, where, strict=True))
        row = np.concatenate([rows for _, rows, _ in own])
        names[row] = name
        parts.append(
            Part(
                gpu=name,
                gpus=gpus_of([gpus[name]], limit),
                ops=ops,
                row=row,
                op=np.concatenate([places[id(ops)] for ops, _, _ in own]),
                count=np.concatenate([counts for _, _, counts in own]),
            )
        )
    return names, parts


def _distinct(parts: Sequence[Ops]) -> tuple[Ops, list[Array]]:
    """The ops of many workloads, with equal ones merged, and the places of each workload's ops."""
    groups, base = [], 0
    where: list[Array] = [np.zeros(ops.count, int) for ops in parts]
    for kind in KINDS:
        own = [(number, group) for number, ops in enumerate(parts) for group in ops.groups if group.kind == kind]
        if not own:
            continue
        names = sorted(set.intersection(*(set(group.columns) for _, group in own)))  # single operators have no weights to store
        table = np.concatenate([np.hstack([group.columns[name] for name in names]) for _, group in own])
        rows, places = np.unique(table, axis=0, return_inverse=True)
        columns = {name: np.ascontiguousarray(rows[:, [number]]) for number, name in enumerate(names)}
        groups.append(Group(kind=kind, rows=np.arange(base, base + len(rows)), columns=columns))
        begin = 0
        for number, group in own:
            where[number][group.rows] = places.ravel()[begin : begin + len(group.rows)] + base
            begin += len(group.rows)
        base += len(rows)
    return Ops(count=base, groups=tuple(groups)), where
