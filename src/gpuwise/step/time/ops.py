"""From a workload at given sizes to the columns that kernel models read.

Only distinct ops are priced; `counts` says how often each runs. Several sizes are laid one after another. Which kernel software
would choose for an op is known by its kind (`kernels/ops`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpuwise.kernels.registry import KINDS, MODELS
from gpuwise.kernels.types import Array, Choices, Group, Ops
from gpuwise.step.time.cold import cold_bytes
from gpuwise.step.time.layout import lays_channels_last
from gpuwise.workload.model.evaluate import op_bytes, product_values
from gpuwise.workload.model.types import Op, Workload

__all__ = ["ops_of"]


def ops_of(workload: Workload, batch: Any = None, seq: Any = None, choices: Choices | None = None) -> Ops:
    """All distinct ops at every size given: row `point * ops + op`."""
    chosen = replace(choices or Choices(), mode=workload.mode)
    values = product_values(workload, batch, seq)
    if chosen.lays_out and lays_channels_last(workload, values[0]):
        chosen = replace(chosen, nhwc=True)
    read, written = op_bytes(workload, values)
    points, count = read.shape
    cold = cold_bytes(workload)
    members: dict[str, list[int]] = {}
    for place, op in enumerate(workload.ops):
        members.setdefault(KINDS[op.kind].model.name, []).append(place)
    groups = []
    for model, places in members.items():
        columns = _columns([workload.ops[place] for place in places], values, chosen)
        columns |= {"read": read[:, places].reshape(-1, 1), "written": written[:, places].reshape(-1, 1)}
        if MODELS[model].reads_weights:
            columns["cold"] = np.tile(cold[places], points)[:, None]
            columns["weights"] = np.full_like(columns["cold"], float(workload.parameters))
        rows = (np.arange(points)[:, None] * count + np.array(places)[None, :]).ravel()
        groups.append(Group(kind=model, rows=rows, columns=columns))
    return Ops(count=points * count, groups=tuple(groups))


def _columns(ops: Sequence[Op], values: Array, choices: Choices) -> dict[str, Array]:
    """What the model of these ops reads: each kind fills in its own, and all kinds of a model have the same columns."""
    members: dict[str, list[int]] = {}
    for place, op in enumerate(ops):
        members.setdefault(op.kind, []).append(place)
    found: dict[str, Array] = {}
    for name, places in members.items():
        kind, own = KINDS[name], [ops[place] for place in places]
        sizes = {size: values[:, [op.sizes[place] for op in own]] for place, size in enumerate(kind.sizes)}
        for column, filled in kind.columns(own, sizes, choices).items():
            if column not in found:
                found[column] = np.empty((len(values), len(ops)))
            found[column][:, places] = filled
    return {column: filled.reshape(-1, 1) for column, filled in found.items()}
