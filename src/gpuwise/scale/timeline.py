"""When is each gradient ready? The calls of a step one after another on a GPU, and when each has left its gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwise.hardware.types import Gpu
from gpuwise.kernels.types import Constants
from gpuwise.step.cpu import cpu_setting, not_hidden_s
from gpuwise.step.simulate import priced_ops, simulate
from gpuwise.step.stacks import as_run
from gpuwise.step.types import Setting
from gpuwise.workload.evaluate import product_values
from gpuwise.workload.types import CATEGORIES, DTYPE_BYTES, PHASES, Workload

__all__ = ["Gradients", "Timeline", "gradients_of", "recomputing", "timeline_of"]

Array = NDArray[np.float64]
_FORWARD = PHASES.index("forward")
_BACKWARD = PHASES.index("backward")
_OPTIMIZER = PHASES.index("optimizer")


@dataclass(frozen=True, kw_only=True, eq=False)
class Timeline:
    """One step on one GPU: when each call ends, and when its passes do."""

    call_end_s: Array
    forward_end_s: float
    backward_end_s: float
    step_s: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Gradients:
    """The gradients of a step in the order they become whole: after which call, and their bytes."""

    call: NDArray[np.int64]
    size_bytes: Array


def timeline_of(
    workload: Workload,
    gpu: Gpu,
    setting: Setting,
    *,
    batch: float | None = None,
    seq: float | None = None,
    power_limit_watts: float | None = None,
    constants: Constants | None = None,
) -> Timeline:
    """The step as `simulate` has it, call by call. Where the host or a loader sets the pace, every call is stretched alike."""
    setting = as_run(setting, workload)
    setting = cpu_setting(setting) if gpu.is_cpu else setting
    sizes: dict[str, Any] = {
        name: np.array([float(value)]) if value is not None and name in workload.symbols else None
        for name, value in (("batch", batch), ("seq", seq if seq is not None else workload.seq))
    }
    steps = simulate(workload, [gpu], setting, **sizes, power_limit_watts=power_limit_watts, constants=constants)
    whole = float(steps.seconds[0, 0]) + (not_hidden_s(steps) if gpu.is_cpu else 0.0)
    seconds = priced_ops(workload, [gpu], setting, **sizes, power_limit_watts=power_limit_watts, constants=constants).seconds[
        :, 0
    ]
    ends = np.cumsum(seconds[workload.calls.op])
    ends = ends * (whole / max(float(ends[-1]), 1e-12))
    backward_end = _last_end(workload, ends, _BACKWARD, float(ends[-1]))
    forward_end = _last_end(workload, ends, _FORWARD, 0.0)
    return Timeline(call_end_s=ends, forward_end_s=min(forward_end, backward_end), backward_end_s=backward_end, step_s=whole)


def recomputing(line: Timeline, again_s: float) -> Timeline:
    """With a backward pass that is longer by what it computes once more, spread over all of it."""
    backward_s = max(line.backward_end_s - line.forward_end_s, 1e-12)
    after = np.clip(line.call_end_s - line.forward_end_s, 0.0, backward_s)
    return Timeline(
        call_end_s=line.call_end_s + again_s * after / backward_s,
        forward_end_s=line.forward_end_s,
        backward_end_s=line.backward_end_s + again_s,
        step_s=line.step_s + again_s,
    )


def _last_end(workload: Workload, ends: Array, phase: int, otherwise: float) -> float:
    last = np.flatnonzero(workload.calls.phase == phase)
    return float(ends[last[-1]]) if len(last) else otherwise


def gradients_of(workload: Workload, batch: float | None = None, seq: float | None = None) -> Gradients:
    """Gradients by the last backward call that writes each: shared weights are whole only then."""
    buffers, calls = workload.buffers, workload.calls
    values = product_values(workload, batch, seq)[0]
    chosen = np.flatnonzero(buffers.category == CATEGORIES.index("gradient"))
    owner = np.repeat(np.arange(len(calls)), calls.read_count + calls.written_count)
    backward = calls.phase[owner] == _BACKWARD
    last = buffers.born.astype(np.int64).copy()
    np.maximum.at(last, calls.refs[backward], owner[backward])
    specs = [workload.tensors[row] for row in buffers.tensor[chosen].tolist()]
    size = np.array([float(values[spec.elements]) * DTYPE_BYTES[spec.dtype] for spec in specs])
    order = np.argsort(last[chosen], kind="stable")
    return Gradients(call=last[chosen][order], size_bytes=size[order])
