"""Prepares a question about plans for the search: the model in parts with their costs, the sizes to try, and what is fixed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.hardware.types import Gpu
from gpuwise.prediction import correction_by
from gpuwise.prediction.ranges import Correction
from gpuwise.questions.common.capturing import check_precision
from gpuwise.questions.common.device_notes import device_notes
from gpuwise.questions.common.step import StepQuery, workload_of
from gpuwise.scale.cluster.shape import Cluster
from gpuwise.scale.plans.costs import Costs
from gpuwise.scale.plans.mixed import slowest
from gpuwise.scale.plans.rules import AXES, Limits, divisors, micro_count, whynot
from gpuwise.scale.plans.scaling import batch_of, counts_of
from gpuwise.scale.plans.search import Wishes
from gpuwise.scale.plans.types import Mesh
from gpuwise.scale.plans.unit_times import Sizes
from gpuwise.scale.split.habits import habits_of
from gpuwise.step.memory.lifetimes import memory_data
from gpuwise.step.time.setting import as_run
from gpuwise.workload.model.types import Workload
from gpuwise.workload.transform.parts import Parts, parts_of

__all__ = ["NODE", "PlanCase", "PlanQuery", "part_of", "plan_case", "usable_bytes"]

NODE = 8  # GPUs of a machine that plans are tried on
_MOST_SIZES = 32  # micro-batches tried, so that a search takes seconds
_MOST_PARTS = 4  # micro-batches that a share which does not divide is cut into
_SURE = 0.9  # of measured jobs that a plan's memory must be enough for


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuery:
    """One model on one cluster. `batch` counts all GPUs together; None means the default batch on each of them."""

    step: StepQuery
    cluster: Cluster
    batch: int | None = None
    limits: Limits
    schedule: str = "1f1b"
    scaling: bool = True
    on: str = ""
    assumptions: tuple[Assumption, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCase:
    """A question with everything the search needs."""

    query: PlanQuery
    cluster: Cluster
    costs: Costs
    wishes: Wishes
    kinds: tuple[tuple[Costs, int], ...]
    correction: Correction
    notes: tuple[Assumption, ...]

    @property
    def batches(self) -> Any:
        return self.costs.sizes.batches


def plan_case(query: PlanQuery, progress: Callable[[str], None]) -> PlanCase:
    """Return the question with its model captured and divided into parts, or raise an error with the reason if that is
    impossible.
    """
    cluster, step = query.cluster, query.step
    workload = workload_of(step, progress)
    if workload.mode != "train":
        raise BadValue("`gpuwise plan` supports only training", hint="use `gpuwise fit` to split a model for inference")
    if np.any(np.diff(workload.calls.phase) < 0):
        raise BadValue(
            f"{workload.model} was captured with several micro-batches",
            hint="capture a single micro-batch; `gpuwise plan` chooses the number",
        )
    check_precision(workload.precision, [gpu for gpu, _ in cluster.kinds])
    seq = step.capture.request.seq
    if seq is not None and "seq" in workload.symbols:
        workload = replace(workload, seq=seq)
    parts = parts_of(workload)
    notes = [*query.assumptions, *step.assumptions]
    batch = query.batch or workload.batch * cluster.gpu_count
    if query.batch is None:
        notes.append(
            assumed(
                "batch",
                f"{batch:,}",
                f"{workload.batch} per GPU, the usual size for this model; set the total for all GPUs with `--batch`",
            )
        )
    _check_limits(parts, cluster, query.limits, batch)
    sizes = Sizes(batches=_sizes(workload, cluster, batch, query.limits), seq=_seq(workload))
    setting = as_run(step.run.setting, workload)
    found = correction_by(workload, step.run)
    notes += [*found.notes(), *(note for gpu, _ in cluster.kinds for note in device_notes(gpu, step.run.setting.stack, 0.0))]
    setting = replace(setting, stack=replace(setting.stack, factor=setting.stack.factor * found.factor))
    limit = step.run.power_limit_watts
    costs = [Costs(parts=parts, gpu=gpu, setting=setting, sizes=sizes, power_limit_watts=limit) for gpu, _ in cluster.kinds]
    kinds = tuple(zip(costs, (count for _, count in cluster.kinds), strict=True))
    memory = min(usable_bytes(gpu) for gpu, _ in cluster.kinds)
    wishes = Wishes(
        global_batch=batch, memory_bytes=memory, limits=query.limits, schedule=query.schedule, habits=habits_of(setting)
    )
    return PlanCase(
        query=query,
        cluster=cluster,
        costs=costs[slowest(costs)],
        wishes=wishes,
        kinds=kinds,
        correction=found,
        notes=tuple(notes),
    )


def part_of(case: PlanCase, cluster: Cluster) -> PlanCase:
    """The same question for a part of a mixed cluster that has one kind of GPU."""
    costs = next(costs for costs, _ in case.kinds if costs.gpu.name == cluster.gpu.name)
    wishes = replace(case.wishes, memory_bytes=usable_bytes(cluster.gpu))
    return replace(case, cluster=cluster, costs=costs, wishes=wishes, kinds=((costs, cluster.gpu_count),))


def usable_bytes(gpu: Gpu) -> float:
    """Return the predicted memory up to which a plan should run reliably: nine in ten jobs with that prediction fit."""
    known = memory_data().ranges["device"]
    return gpu.usable_memory_bytes / float(np.interp(_SURE, known.probability, known.ratio))


def _seq(workload: Workload) -> float | None:
    return float(workload.seq) if workload.seq is not None and "seq" in workload.symbols else None


def _sizes(workload: Workload, cluster: Cluster, batch: int, limits: Limits) -> Any:
    """Return micro-batches worth trying: powers of two, and divisors of the samples per GPU."""
    if "batch" not in workload.symbols:
        return np.array([float(workload.batch)])
    if "micro_batch" in limits.fixed:
        return np.array([float(limits.fixed["micro_batch"])])
    powers = [1 << power for power in range(batch.bit_length())]
    shares = [batch // data for data in divisors(cluster.gpu_count) if batch % data == 0]
    few = [batch_of(batch, count) // count for count in range(2, min(cluster.gpus_per_node, NODE) + 1)]
    few += [-(-batch // (count * parts)) for count in counts_of(cluster) if batch % count for parts in range(1, _MOST_PARTS + 1)]
    found = {size for size in (*powers, *shares, *few, *divisors(shares[-1])) if size <= batch}
    ordered = sorted(found, key=lambda size: (size not in (*powers, *shares, *few), size))
    return np.array(sorted(ordered[:_MOST_SIZES]), dtype=float)


def _check_limits(parts: Parts, cluster: Cluster, limits: Limits, batch: int) -> None:
    """Refuse what is impossible, with the reason."""
    fixed = limits.fixed
    for axis in AXES:
        reason = whynot(parts, cluster, axis, fixed.get(axis, 1))
        if reason:
            raise BadValue(reason, hint=f"leave out `--{axis}` to see which plans are possible")
    named = [axis for axis in AXES[:4] if axis in fixed]
    ranks = int(np.prod([fixed[axis] for axis in named]))
    if cluster.gpu_count % ranks or (len(named) == len(AXES[:4]) and ranks != cluster.gpu_count):
        asked = " x ".join(f"{axis} {fixed[axis]}" for axis in named)
        raise BadValue(
            f"{asked} does not divide {cluster.gpu_count} GPUs evenly",
            hint="choose values whose product divides the number of GPUs",
        )
    data = fixed.get("data", 1)
    if batch % data and (data < cluster.gpu_count or batch < data):
        raise BadValue(f"a batch of {batch:,} is not divisible by --data {data}", hint=f"set `--batch` to a multiple of {data}")
    micro = fixed.get("micro_batch", 1)
    degrees = [data] if "data" in fixed else divisors(cluster.gpu_count)
    if not any(batch % (ranks * micro) == 0 or _uneven(cluster, batch, ranks, micro) for ranks in degrees):
        raise BadValue(
            f"a batch of {batch:,} cannot be split into micro-batches of {micro} on each rank",
            hint="choose a different `--batch`, or leave out `--micro-batch`",
        )
    stages = fixed.get("pipeline", 1) * fixed.get("chunks", 1)
    if fixed.get("chunks", 1) > 1 and len(parts.kinds) % stages:
        raise BadValue(
            f"{len(parts.kinds)} blocks cannot be split into {stages} equal chunks",
            hint="leave out `--chunks` to see which plans are possible",
        )


def _uneven(cluster: Cluster, batch: int, ranks: int, micro: int) -> bool:
    """Whether only samples are divided, with some micro-batches one sample smaller."""
    return ranks == cluster.gpu_count and micro_count(Mesh(data=ranks), batch, micro) > 0
