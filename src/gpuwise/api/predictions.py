"""How fast will a model run on a GPU, and what limits it?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any

import numpy as np

from gpuwise.api.device_notes import device_notes
from gpuwise.api.fit_command import fit_of
from gpuwise.api.own_steps import carried_over
from gpuwise.api.peaks import above_peak, step_peak, tf32_fraction
from gpuwise.api.question import Assumption, StepQuery, assumed, step_query, workload_of
from gpuwise.api.showing import Shown
from gpuwise.api.widths import limited, loaded, repeated, width_of
from gpuwise.errors import BadValue
from gpuwise.hardware import tables
from gpuwise.hardware.precisions import convolves_in_tf32
from gpuwise.hardware.types import Gpu
from gpuwise.scale.cluster import Cluster, usual_cluster
from gpuwise.scale.collectives import collective_s
from gpuwise.scale.data_parallel import gradient_bytes, sharing_s
from gpuwise.step.cpu import cpu_setting, not_hidden_s
from gpuwise.step.least import LEAST_RESTS_ON, least_s
from gpuwise.step.memory import Memory, MemorySetting, memory_of
from gpuwise.step.segments import slow_s
from gpuwise.step.simulate import simulate
from gpuwise.step.stacks import as_run
from gpuwise.step.types import BOUNDS, Steps
from gpuwise.units import format_si
from gpuwise.workload.coverage import coverage
from gpuwise.workload.types import Workload

__all__ = [
    "OpShare",
    "PredictAnswer",
    "Prediction",
    "bound_fractions",
    "correction",
    "main_bound",
    "predict",
    "predict_captured",
    "predict_query",
]

predict_query = step_query
_LARGEST_AUTO = 2**16
_WELL_COVERED = 0.9
_NAMED = 3
_AT_LIMIT = (assumed("low end of the range", "the hardware's limit", LEAST_RESTS_ON),)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpShare:
    """All ops of one kind: how often, how long, what bounds them, and where they lie on a roofline."""

    op: str
    count: int
    seconds: float
    bound: str
    flops: float
    moved_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One model on one GPU (or several of one kind). `range_basis` is assumed where no measurement supports the range.
    `peak_flops_per_s` is what the GPU could do at best in the types that the step `computes_in`."""

    gpu: Gpu
    gpu_count: int
    mode: str
    precision: str
    batch: int
    seq: int | None
    step_s: float
    step_low_s: float
    step_high_s: float
    range_basis: str
    bound: str
    bound_fractions: dict[str, float]
    lanes_s: dict[str, float]
    memory: Memory
    fits: bool
    coverage_fraction: float
    utilisation_fraction: float | None
    peak_flops_per_s: float | None
    computes_in: str
    by_op: tuple[OpShare, ...]
    assumptions: tuple[Assumption, ...]

    @property
    def samples_per_s(self) -> float:
        return self.batch * self.gpu_count / self.step_s

    def to_dict(self) -> dict[str, Any]:
        """In the names of the JSON contract."""
        return {
            "gpu": self.gpu.name,
            "gpu_count": self.gpu_count,
            "mode": self.mode,
            "precision": self.precision,
            "batch": self.batch,
            "seq": self.seq,
            "step_s": self.step_s,
            "step_low_s": self.step_low_s,
            "step_high_s": self.step_high_s,
            "range_basis": self.range_basis,
            "samples_per_s": self.samples_per_s,
            "bound": self.bound,
            "bound_fractions": self.bound_fractions,
            "lanes_s": self.lanes_s,
            "memory": asdict(self.memory) | {"total_bytes": self.memory.total_bytes},
            "fits": self.fits,
            "coverage_fraction": self.coverage_fraction,
            "utilisation_fraction": self.utilisation_fraction,
            "peak_flops_per_s": self.peak_flops_per_s,
            "computes_in": self.computes_in,
            "by_op": [asdict(share) for share in self.by_op],
            "assumptions": list(self.assumptions),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictAnswer(Shown):
    """The predictions, one for each GPU, in the order asked."""

    model: str
    results: tuple[Prediction, ...]
    assumptions: tuple[Assumption, ...]
    notes: tuple[str, ...]
    data_date: date

    def to_dict(self) -> dict[str, Any]:
        """In the names of the JSON contract."""
        return {
            "model": self.model,
            "results": [result.to_dict() for result in self.results],
            "assumptions": list(self.assumptions),
            "notes": list(self.notes),
            "data_date": self.data_date.isoformat(),
        }


def predict(query: StepQuery, progress: Callable[[str], None] = lambda text: None) -> PredictAnswer:
    """A step of this model on each of these GPUs."""
    return predict_captured(workload_of(query, progress), query)


def predict_captured(workload: Workload, query: StepQuery) -> PredictAnswer:
    """The same for a workload at hand."""
    batches = {gpu.name: _batch(workload, query, gpu) for gpu in query.gpus}
    factor, measured_note = correction(workload, query)
    shared = list(query.assumptions)
    if query.batch is None:
        shared.append(
            assumed(
                "batch",
                str(workload.batch),
                "the usual one for this model; `--batch auto` takes the largest power of two that fits",
            )
        )
    if workload.seq is not None and query.capture.request.seq is None:
        shared.append(assumed("seq", str(workload.seq), "the usual length for this model"))
    rounded = as_run(query.setting, workload).tf32_convolutions and any(map(convolves_in_tf32, query.gpus))
    if rounded and any(op.kind == "conv" for op in workload.ops):
        shared.append(
            assumed("convolutions", "TF32 where the GPU has it", "PyTorch's default in fp32; matrix products stay fp32")
        )
    results = []
    for gpu in query.gpus:
        result = _prediction(workload, query, gpu, batches[gpu.name], factor)
        own = (
            *result.assumptions,
            *_own_note(query, gpu),
            *_sharing_note(workload, query, result),
            *_peak_note(workload, query, result),
        )
        ranged = _own_s(query, gpu) is None and not query.on_this_machine
        own = (*own, *device_notes(gpu, query.setting.stack, result.memory.total_bytes, ranged=ranged))
        results.append(replace(result, assumptions=(*shared, *measured_note, *own)))
    if query.on_this_machine:
        from gpuwise.api.benching import as_measured_here

        results = [as_measured_here(workload, result) for result in results]
    return PredictAnswer(
        model=workload.model,
        results=tuple(results),
        assumptions=(*shared, *measured_note),
        notes=(*workload.notes, *_coverage_notes(workload), *_fit_note(query, results)),
        data_date=tables.data_date(),
    )


def _fit_note(query: StepQuery, results: Sequence[Prediction]) -> tuple[str, ...]:
    """Where to look on, where a step does not fit."""
    short = [result.gpu for result in results if not result.fits and not query.on_this_machine]
    if not short:
        return ()
    names = ", ".join(gpu.name for gpu in short)
    return (f"it does not fit {names}; what would make it fit: `{fit_of(query, short)}`",)


def _batch(workload: Workload, query: StepQuery, gpu: Gpu) -> int:
    """As asked; for `auto` the largest power of two whose step fits this GPU."""
    if query.batch != 0:
        return query.batch or workload.batch
    if "batch" not in workload.symbols:
        raise BadValue(f"{workload.model} is known at batch {workload.batch} only", hint="leave `--batch auto` out")
    size = 1
    while size < _LARGEST_AUTO and _memory(workload, query, gpu, size * 2).total_bytes <= gpu.usable_memory_bytes:
        size *= 2
    return size


def _prediction(workload: Workload, query: StepQuery, gpu: Gpu, batch: int, factor: float) -> Prediction:
    steps = _steps(workload, query, gpu, batch)
    memory = _memory(workload, query, gpu, batch)
    seen = coverage(workload)
    waits = _waits(workload, query, gpu, steps, memory)
    whole = float(steps.seconds[0, 0]) + sum(waits.values())
    own = _own_s(query, gpu)
    seconds = whole * factor if own is None else own
    fractions = bound_fractions(steps, waits)
    bound = BOUNDS[int(main_bound(fractions))]
    width = loaded(query, steps, width_of(query, gpu, bound, seen.bytes_fraction)) if own is None else repeated()
    setting = as_run(query.setting, workload)
    least = float(least_s(workload, [gpu], setting, **_sizes(workload, batch))[0, 0]) if own is None else 0.0
    low_s = float(limited(seconds * width.low, seconds, least))
    rounded = tf32_fraction(workload, setting, gpu)
    peak = step_peak(gpu, workload.precision, rounded)
    return Prediction(
        gpu=gpu,
        gpu_count=query.gpu_count,
        mode=workload.mode,
        precision=workload.precision,
        batch=batch,
        seq=workload.seq,
        step_s=seconds,
        step_low_s=low_s,
        step_high_s=seconds * width.high,
        range_basis="measured" if width.rows else "assumed",
        bound=bound,
        bound_fractions=fractions,
        lanes_s={name: float(lane[0, 0]) * seconds / whole for name, lane in steps.lanes.items()},
        memory=memory,
        fits=memory.total_bytes <= gpu.usable_memory_bytes + gpu.slow_memory_bytes,
        coverage_fraction=seen.bytes_fraction,
        utilisation_fraction=float(steps.flops[0, 0]) / seconds / peak if peak else None,
        peak_flops_per_s=peak,
        computes_in=f"{workload.precision} with convolutions in TF32" if rounded else workload.precision,
        by_op=_by_op(steps, seconds / whole),
        assumptions=_AT_LIMIT if low_s > seconds * width.low else (),
    )


def bound_fractions(steps: Steps, waits: Mapping[str, float]) -> dict[str, float]:
    """What a step goes to, with what is waited for beside its lanes; in sum one."""
    alone = float(steps.seconds[0, 0])
    whole = alone + sum(waits.values())
    return {name: (float(steps.shares[name][0, 0]) * alone + waits.get(name, 0.0)) / whole for name in BOUNDS}


def main_bound(fractions: Mapping[str, Any]) -> Any:
    """What holds a step up most, as a place in `BOUNDS`; of numbers or arrays. The GPU's work is told as two parts: what it
    waits for must outweigh both together."""
    busy = fractions["compute"] + fractions["memory"]
    parts = [
        fractions[name] if name in ("compute", "memory", "launch") else np.where(fractions[name] > busy, fractions[name], -1.0)
        for name in BOUNDS
    ]
    return np.argmax(np.stack(np.broadcast_arrays(*parts)), axis=0)


def _memory(workload: Workload, query: StepQuery, gpu: Gpu, batch: int) -> Memory:
    setting = MemorySetting(gpu_count=query.gpu_count)
    return memory_of(workload, batch if "batch" in workload.symbols else None, gpu=gpu, setting=setting)


def _waits(workload: Workload, query: StepQuery, gpu: Gpu, steps: Steps, memory: Memory) -> dict[str, float]:
    """Seconds beside the lanes, by what they wait for."""
    return {
        "communication": _sharing_s(workload, query, gpu, _batch(workload, query, gpu), float(steps.seconds[0, 0])),
        "launch": not_hidden_s(steps) if gpu.is_cpu else 0.0,
        "memory": slow_s(gpu, memory.total_bytes, sum(float(np.ravel(entry.moved_bytes)[0]) for entry in steps.classes)),
    }


def _sharing_s(workload: Workload, query: StepQuery, gpu: Gpu, batch: int, alone_s: float) -> float:
    """What averaging gradients over several GPUs, and waiting for each other, adds to a step."""
    if query.gpu_count == 1 or workload.mode != "train":
        return 0.0
    size, limit = float(batch) if "batch" in workload.symbols else None, query.power_limit_watts
    return sharing_s(workload, _cluster(query, gpu), query.setting, alone_s, batch=size, power_limit_watts=limit)


def _cluster(query: StepQuery, gpu: Gpu, notes: list[Assumption] | None = None) -> Cluster:
    """These GPUs as they are usually joined, or by the link of the question alone."""
    return usual_cluster(gpu, query.gpu_count, link=query.gpu_link, notes=notes)


def _sharing_note(workload: Workload, query: StepQuery, result: Prediction) -> tuple[Assumption, ...]:
    """What several GPUs are taken to do."""
    if result.gpu_count == 1:
        return ()
    if workload.mode != "train":
        return (assumed("gpus", f"{result.gpu_count}, each by itself", "each runs samples of its own"),)
    notes: list[Assumption] = []
    cluster = _cluster(query, result.gpu, notes)
    seconds = float(collective_s("all_reduce", gradient_bytes(workload), cluster, cluster.gpus_per_node, cluster.node_count))
    felt = result.bound_fractions["communication"]
    effect = f"with waiting for each other {felt:.0%} of the step; the rest hides behind the backward pass"
    value = f"{format_si(seconds, 's')} between {result.gpu_count} over {cluster.gpu_link.name}"
    return (*notes, assumed(f"{result.gpu.name} averaging gradients", value, effect))


def _peak_note(workload: Workload, query: StepQuery, result: Prediction) -> tuple[Assumption, ...]:
    """Why a step reaches more than the peak, where it does."""
    used = result.utilisation_fraction
    if used is None or used <= 1:
        return ()
    effect = above_peak(workload, measured=bool(query.measured))
    return ({"name": f"{result.gpu.name} of its peak", "value": f"{used:.0%} as counted", "basis": "computed", "effect": effect},)


def _sizes(workload: Workload, batch: int) -> dict[str, Any]:
    return {
        "batch": np.array([float(batch)]) if "batch" in workload.symbols else None,
        "seq": np.array([float(workload.seq)]) if "seq" in workload.symbols and workload.seq is not None else None,
    }


def _steps(workload: Workload, query: StepQuery, gpu: Gpu, batch: int) -> Steps:
    setting = as_run(query.setting, workload)
    if gpu.is_cpu:
        setting = cpu_setting(setting)
    return simulate(workload, [gpu], setting, **_sizes(workload, batch), power_limit_watts=query.power_limit_watts)


def _own_s(query: StepQuery, gpu: Gpu) -> float | None:
    """What the user measured on this very GPU."""
    own = [seconds for measured, seconds in query.measured if measured.name == gpu.name]
    return float(np.median(own)) if own else None


def _own_note(query: StepQuery, gpu: Gpu) -> tuple[Assumption, ...]:
    own = _own_s(query, gpu)
    if own is None:
        return ()
    effect = "your own; the times of its ops are scaled to it"
    return ({"name": f"{gpu.name} step", "value": format_si(own, "s"), "basis": "measured", "effect": effect},)


def _coverage_notes(workload: Workload) -> tuple[str, ...]:
    """A warning where much of the model is priced by its bytes alone."""
    seen = coverage(workload)
    if seen.bytes_fraction >= _WELL_COVERED:
        return ()
    names = list(seen.unknown)
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    share = f"only {100 * seen.bytes_fraction:.0f} % of what this step moves is of ops we know"
    return (f"{share}; the rest ({shown}) is priced by its bytes alone, so the range is wide",)


def correction(workload: Workload, query: StepQuery) -> tuple[float, list[Assumption]]:
    """How far the user's own measurements are from the predictions for them, shrunk."""
    if not query.measured:
        return 1.0, []
    found = []
    for gpu, seconds in query.measured:
        batch = _batch(workload, query, gpu)
        steps, memory = _steps(workload, query, gpu, batch), _memory(workload, query, gpu, batch)
        predicted = float(steps.seconds[0, 0]) + sum(_waits(workload, query, gpu, steps, memory).values())
        found.append((gpu, seconds, predicted))
    return carried_over(found)


def _by_op(steps: Steps, factor: float) -> tuple[OpShare, ...]:
    rows = [
        OpShare(
            op=entry.kind,
            count=entry.count,
            seconds=float(entry.seconds[0, 0]) * factor,
            bound="compute" if entry.compute_s[0, 0] > 0.5 * entry.seconds[0, 0] else "memory",
            flops=float(np.ravel(entry.flops)[0]),
            moved_bytes=float(np.ravel(entry.moved_bytes)[0]),
        )
        for entry in steps.classes
    ]
    return tuple(sorted(rows, key=lambda row: -row.seconds))
