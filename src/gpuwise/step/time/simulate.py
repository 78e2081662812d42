"""One step on lanes: the host issues kernels, the GPU runs them, inputs are loaded and copied meanwhile.

The lanes overlap from step to step, so the longest one sets the pace. Where two are equally long they also wait for each other
now and then: the maximum is smooth. Two lanes of one length make a step 12 % longer than either, one of half the length adds
hardly anything. On a CPU nothing overlaps with issuing ops (`cpu.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpuwise.hardware.types import Gpu
from gpuwise.kernels.registry import KINDS
from gpuwise.kernels.times import Times, floors_s, gpus_of, load_constants, times
from gpuwise.kernels.types import Choices, Constants
from gpuwise.step.time.cpu import CPU_FACTOR
from gpuwise.step.time.ops import ops_of
from gpuwise.step.time.segments import fast_part
from gpuwise.step.types import Array, ClassShare, Setting, StepTimes
from gpuwise.workload.model.evaluate import call_counts, input_bytes, op_bytes, op_flops, product_values
from gpuwise.workload.model.types import Workload

__all__ = ["priced_ops", "simulate"]

_SMOOTH = 6.0
_PINNED_FRACTION = 0.8  # what a pinned copy reaches of the link


def simulate(
    workload: Workload,
    gpus: Sequence[Gpu],
    setting: Setting,
    *,
    batch: Any = None,
    seq: Any = None,
    power_limit_watts: float | Sequence[float] | None = None,
    constants: Constants | None = None,
    dtype: Any = np.float64,
    by_kind: bool = True,
) -> StepTimes:
    """The step at every batch (and sequence) on every GPU, all under one power limit or each under its own; `classes` stay empty
    where nobody asks for them `by_kind`."""
    k = constants if constants is not None else load_constants()
    priced = priced_ops(
        workload, gpus, setting, batch=batch, seq=seq, power_limit_watts=power_limit_watts, constants=k, dtype=dtype
    )
    counts = call_counts(workload)
    values = product_values(workload, batch, seq)
    points = values.shape[0]
    calls = counts.sum(axis=0)
    is_cpu = np.array([gpu.is_cpu for gpu in gpus])
    seconds, start = _summed(priced.seconds, calls, points), _summed(priced.launches, calls, points)
    lanes = {
        "gpu": seconds,
        "host": np.broadcast_to(_host_s(workload, counts, setting, k), seconds.shape),
        "copy": np.where(is_cpu, 0.0, _copy_s(workload, values, setting)[:, None]),
        "input": np.broadcast_to(_input_s(workload, batch, points, setting)[:, None], seconds.shape),
    }
    flops = op_flops(workload, values)
    overlapping = _longest(lanes)
    shown = np.where(is_cpu, np.minimum(lanes["gpu"], lanes["host"]), 0.0)  # a CPU issues an op when the one before is done
    whole = overlapping + shown
    shares = _shares(priced, calls, lanes, start * k["kernel.start_s"] * _factors(gpus, setting))
    if is_cpu.any():
        shares = {name: (share * overlapping + (shown if name == "launch" else 0.0)) / whole for name, share in shares.items()}
    return StepTimes(
        seconds=whole,
        lanes=lanes,
        shares=shares,
        classes=_classes(workload, priced, values, flops, calls) if by_kind else (),
        flops=(flops @ calls)[:, None],
        moved_bytes=(sum(op_bytes(workload, values)) @ calls)[:, None],
        op_s=priced.seconds.reshape(points, len(calls), -1),
    )


def priced_ops(
    workload: Workload,
    gpus: Sequence[Gpu],
    setting: Setting,
    *,
    batch: Any = None,
    seq: Any = None,
    power_limit_watts: float | Sequence[float] | None = None,
    constants: Constants | None = None,
    dtype: Any = np.float64,
) -> Times:
    """Every distinct op at every size in this software. One factor for all ops must not make any of them faster than the GPU can
    be; of CPUs nothing is claimed."""
    choices = Choices(
        tf32=setting.tf32,
        tf32_convolutions=setting.tf32_convolutions,
        fused_attention=setting.stack.fused_attention,
        nhwc=setting.nhwc,
        lays_out=setting.stack.how == "compile",
    )
    ops = ops_of(workload, batch, seq, choices)
    columns = gpus_of([fast_part(gpu) for gpu in gpus], power_limit_watts, dtype)
    priced = times(ops, columns, constants if constants is not None else load_constants())
    exact = columns.clock.dtype.type
    least = floors_s(ops, columns) * np.array([not gpu.is_cpu for gpu in gpus], dtype=exact)
    return replace(priced, seconds=np.maximum(priced.seconds * _factors(gpus, setting).astype(exact), least))


def _factors(gpus: Sequence[Gpu], setting: Setting) -> Array:
    """What the software multiplies the time of every op by, on each of these devices."""
    return np.where([gpu.is_cpu for gpu in gpus], CPU_FACTOR, setting.stack.factor)


def _summed(per_op: Array, calls: Array, points: int) -> Array:
    """(points · ops, gpus) -> (points, gpus), each op as often as it is called."""
    result: Array = np.einsum("pog,o->pg", per_op.reshape(points, len(calls), -1), calls.astype(per_op.dtype))
    return result


def _longest(lanes: dict[str, Array]) -> Array:
    """The longest lane, a little longer where another is nearly as long."""
    stacked = np.stack(list(lanes.values()))
    top = np.maximum(stacked.max(axis=0), 1e-12)
    longest: Array = top * ((stacked / top) ** _SMOOTH).sum(axis=0) ** (1.0 / _SMOOTH)
    return longest


def _host_s(workload: Workload, counts: Array, setting: Setting, k: Constants) -> float:
    """Seconds the host needs to issue the step. A layer's forward call is the unit; other calls cost a fraction of it."""
    layer = np.array([KINDS[op.kind].is_layer for op in workload.ops])
    slow = np.array([KINDS[op.kind].slow_backward for op in workload.ops])
    forward, backward, optimizer = counts
    calls = (
        forward[layer].sum()
        + k["host.light"] * forward[~layer].sum()
        + k["host.conv_backward"] * backward[slow].sum()
        + k["host.backward"] * backward[~slow].sum()
        + k["host.optimizer"] * optimizer.sum()
    )
    return float(calls * setting.host.launch_s * setting.stack.host_factor)


def _copy_s(workload: Workload, values: Array, setting: Setting) -> Array:
    if setting.link_bytes_per_s is None:
        return np.zeros(values.shape[0])
    return input_bytes(workload, values) / (setting.link_bytes_per_s * _PINNED_FRACTION)


def _input_s(workload: Workload, batch: Any, points: int, setting: Setting) -> Array:
    if setting.loader_samples_per_s is None:
        return np.zeros(points)
    size = np.broadcast_to(np.asarray(workload.batch if batch is None else batch, dtype=float), (points,))
    return size / setting.loader_samples_per_s


def _shares(priced: Times, calls: Array, lanes: dict[str, Array], start_s: Array) -> dict[str, Array]:
    """By what share of its length the step would shrink if one thing were a little faster; they sum to 1.

    For lanes that is the derivative of the smooth maximum. The GPU's part goes to compute or memory by the longer half of each
    op, and to launches for the time in which kernels start and end.
    """
    stacked = np.stack(list(lanes.values()))
    weight = (stacked / np.maximum(stacked.max(axis=0), 1e-12)) ** _SMOOTH
    weight = weight / np.maximum(weight.sum(axis=0), 1e-12)
    lane = dict(zip(lanes, weight, strict=True))
    busy = np.maximum(lanes["gpu"], 1e-12)
    longer = np.where(priced.compute_s >= priced.memory_s, priced.seconds, 0.0)
    starting = np.minimum(1.0, start_s / busy)
    compute = np.minimum(1.0, _summed(longer, calls, busy.shape[0]) / busy) * (1.0 - starting)
    return {
        "compute": lane["gpu"] * compute,
        "memory": lane["gpu"] * (1.0 - starting - compute),
        "launch": lane["host"] + lane["gpu"] * starting,
        "input": lane["input"],
        "copy": lane["copy"],
        "communication": np.zeros_like(busy),
    }


def _classes(workload: Workload, priced: Times, values: Array, flops: Array, calls: Array) -> tuple[ClassShare, ...]:
    members: dict[str, list[int]] = {}
    for place, op in enumerate(workload.ops):
        members.setdefault(op.kind, []).append(place)
    read, written = op_bytes(workload, values)
    points, count = values.shape[0], len(workload.ops)

    def summed(per_op: Array, places: list[int]) -> Array:
        return _summed(per_op.reshape(points, count, -1)[:, places].reshape(points * len(places), -1), calls[places], points)

    return tuple(
        ClassShare(
            kind=kind,
            count=int(calls[places].sum()),
            seconds=summed(priced.seconds, places),
            compute_s=summed(np.where(priced.compute_s >= priced.memory_s, priced.seconds, 0.0), places),
            flops=flops[:, places] @ calls[places],
            moved_bytes=(read + written)[:, places] @ calls[places],
        )
        for kind, places in members.items()
    )
