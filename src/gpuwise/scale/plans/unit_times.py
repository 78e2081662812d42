"""Computes the time of every unit of a model on one rank, at several micro-batches at once; plan times are computed from
these.

A unit's calls use the same kernel models as a whole step. Messages between the ranks that share a layer are listed by size, and
the links determine their cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuwise.hardware.types import Gpu
from gpuwise.kernels.registry import KINDS
from gpuwise.kernels.types import Constants, Split
from gpuwise.scale.split.share import Degrees, Share, share_of
from gpuwise.scale.split.tensor import tensor_split
from gpuwise.step.time.simulate import simulate
from gpuwise.step.types import Array, Setting
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.types import DTYPE_BYTES, PHASES, Calls, Workload, ints
from gpuwise.workload.transform.parts import Parts

__all__ = ["Sizes", "UnitTimes", "price", "update_times"]

_FORWARD, _BACKWARD, _UPDATE = range(len(PHASES))


@dataclass(frozen=True, kw_only=True, eq=False)
class Sizes:
    """The requested micro-batches, and the sequence length, if the workload leaves them open."""

    batches: Array
    seq: float | None

    @property
    def points(self) -> int:
        return len(self.batches)


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitTimes:
    """Arrays of shape (units, points): the seconds that the GPU and the host need for a micro-batch in each pass. `again` is the
    time of the ops that selective recomputation repeats. `messages` are the bytes that tensor parallelism sums in each unit and
    pass, one array for each. `exchanged` are the bytes that are sent to experts and back, and `passed` are the bytes of keys and
    values in context parallelism.
    """

    forward_s: Array
    backward_s: Array
    again_s: Array
    host_forward_s: Array
    host_backward_s: Array
    host_again_s: Array
    flops: Array
    messages: Mapping[tuple[int, int], tuple[Array, ...]]
    exchanged: Array
    passed: Array


def price(
    parts: Parts,
    degrees: Degrees,
    gpu: Gpu,
    setting: Setting,
    sizes: Sizes,
    *,
    constants: Constants | None = None,
    power_limit_watts: float | None = None,
) -> UnitTimes:
    """Predict all units of a model as one rank with these degrees runs them."""
    share = share_of(parts, degrees)
    seq = sizes.seq / degrees.context if sizes.seq is not None else None
    at: dict[str, Any] = {"batch": sizes.batches if "batch" in parts.workload.symbols else None, "seq": seq}
    kinds = np.array([KINDS[op.kind].is_product for op in share.workload.ops])
    phase, kept = share.workload.calls.phase, kinds[share.workload.calls.op]
    chosen = {"forward": phase == _FORWARD, "backward": phase == _BACKWARD, "again": (phase == _FORWARD) & ~kept}
    shape = (parts.units, sizes.points)
    found = {name: np.zeros(shape) for pass_ in chosen for name in (f"{pass_}_s", f"host_{pass_}_s")}
    flops = np.zeros(shape)
    for unit in range(parts.units):
        for name, rows in chosen.items():
            piece = _piece(share, (share.unit == unit) & rows)
            if len(piece.calls):
                steps = simulate(piece, [gpu], setting, constants=constants, power_limit_watts=power_limit_watts, **at)
                found[f"{name}_s"][unit] = steps.lanes["gpu"][:, 0]
                found[f"host_{name}_s"][unit] = steps.lanes["host"][:, 0]
                flops[unit] += steps.flops[:, 0] if name != "again" else 0.0
    values = product_values(parts.workload, **at)
    values = np.broadcast_to(values, (sizes.points, values.shape[1]))
    return UnitTimes(
        **found,
        flops=flops,
        messages=_messages(parts, values) if degrees.tensor > 1 else {},
        exchanged=_exchanged(parts, values),
        passed=_passed(parts, values),
    )


def _piece(share: Share, rows: Array) -> Workload:
    """Return only these calls, with the ops that they need."""
    calls = share.workload.calls
    used, row = np.unique(calls.op[rows], return_inverse=True)
    chosen = Calls(
        op=ints(row.tolist()),
        phase=calls.phase[rows],
        module=calls.module[rows],
        read_count=np.zeros(int(rows.sum()), dtype=np.int64),
        written_count=np.zeros(int(rows.sum()), dtype=np.int64),
        refs=ints(()),
    )
    return replace(share.workload, ops=tuple(share.workload.ops[op] for op in used.tolist()), calls=chosen)


def _bytes(workload: Workload, values: Array, tensors: Sequence[int]) -> Array:
    """Bytes of these tensors together, at every point."""
    total = np.zeros(values.shape[0])
    for row in tensors:
        total = total + values[:, workload.tensors[row].elements] * DTYPE_BYTES[workload.tensors[row].dtype]
    return total


def _messages(parts: Parts, values: Array) -> dict[tuple[int, int], tuple[Array, ...]]:
    found: dict[tuple[int, int], list[Array]] = {}
    for message in tensor_split(parts.workload).messages:
        unit = int(parts.unit[message.call])
        if unit >= 0:
            key = (unit, int(parts.workload.calls.phase[message.call]))
            found.setdefault(key, []).append(_bytes(parts.workload, values, (message.tensor,)))
    return {key: tuple(rows) for key, rows in found.items()}


def _exchanged(parts: Parts, values: Array) -> Array:
    """Bytes of tokens sent to their experts in a forward pass; the same amount comes back."""
    total = np.zeros((parts.units, values.shape[0]))
    for number in np.flatnonzero((parts.unit >= 0) & (parts.workload.calls.phase == _FORWARD)).tolist():
        op = parts.workload.ops[parts.workload.calls.op[number]]
        if op.attrs.get("groups") == "experts" and not total[parts.unit[number]].any():
            total[parts.unit[number]] = _bytes(parts.workload, values, op.reads[:1])
    return total


def _passed(parts: Parts, values: Array) -> Array:
    """Bytes of keys and values of a forward pass on one rank."""
    total = np.zeros((parts.units, values.shape[0]))
    for number in np.flatnonzero((parts.unit >= 0) & (parts.workload.calls.phase == _FORWARD)).tolist():
        op = parts.workload.ops[parts.workload.calls.op[number]]
        if KINDS[op.kind].split is Split.HEADS:
            total[parts.unit[number]] += _bytes(parts.workload, values, op.reads[1:3])
    return total


def update_times(
    parts: Parts,
    gpu: Gpu,
    setting: Setting,
    *,
    power_limit_watts: float | None = None,
    constants: Constants | None = None,
) -> tuple[float, float]:
    """Return the seconds the GPU and the host need to update all weights of the model; a rank with a part of them needs that
    share.
    """
    calls = parts.workload.calls
    rows = calls.phase == _UPDATE
    if not rows.any():
        return 0.0, 0.0
    whole = Share(workload=parts.workload, unit=calls.phase, number=calls.phase)
    steps = simulate(_piece(whole, rows), [gpu], setting, power_limit_watts=power_limit_watts, constants=constants)
    return float(steps.lanes["gpu"][0, 0]), float(steps.lanes["host"][0, 0])
