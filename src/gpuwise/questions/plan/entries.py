"""The few plans worth knowing of all that were tried, each with its range, what limits it and its recipes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpuwise.engine import Steps, predict_steps
from gpuwise.engine.ranges import plan_width
from gpuwise.questions.common.peaks import step_peak, tf32_fraction
from gpuwise.questions.common.plan_case import PlanCase
from gpuwise.questions.plan.types import PLAIN, SIMPLEST, PlanEntry
from gpuwise.scale.cluster.collectives import waits_fraction
from gpuwise.scale.cluster.shape import Cluster
from gpuwise.scale.plans.mixed import proportional
from gpuwise.scale.plans.recipes import recipes
from gpuwise.scale.plans.rules import micro_count
from gpuwise.scale.plans.scaling import ScalePoint
from gpuwise.scale.plans.search import WITHIN, Found, estimate, simplest
from gpuwise.scale.plans.types import Estimate, Mesh, Plan
from gpuwise.scale.split.share import Degrees
from gpuwise.workload.model.coverage import coverage

__all__ = ["plain_entry", "plan_entries"]

_MOST_SHOWN = 7  # plans that a reader can compare at a glance
_CLEARLY = 0.98  # of the GPU-seconds: a plan on fewer GPUs that saves less is not shown


def plan_entries(case: PlanCase, found: Found, points: Sequence[ScalePoint]) -> tuple[PlanEntry, ...]:
    """The fastest plan, the simplest that is nearly as fast, the one with the fewest GPU-hours, and the next fastest."""
    order = found.order().tolist()
    easy = simplest(found, case.batches)
    rows: dict[tuple[Any, ...], int] = {}
    for row in order:
        one = found.plan(row, case.batches)
        rows.setdefault((replace(one.mesh, chunks=1), one.zero_stage, one.recompute, one.offload), row)
        if len(rows) >= _MOST_SHOWN:
            break
    chosen = [*rows.values()]
    labels = {chosen[0]: ["fastest"]}
    if easy is not None:
        labels.setdefault(easy, []).append(SIMPLEST)
    best = _one(case, found, chosen[0], labels)
    cheap = _cheapest(case, points, best)
    if cheap is None and points:
        best = replace(best, labels=(*best.labels, "fewest GPU-hours"))
    shared = _shared(case, best)
    extra = [entry for entry in (cheap,) if entry is not None]
    room = _MOST_SHOWN - len(extra) - (shared is not None)
    if easy is not None and easy not in chosen[:room]:
        chosen = [*chosen[: room - 1], easy]
    rest = [_one(case, found, row, labels) for row in chosen[1:room]]
    if shared is None:
        return (best, *rest, *extra)
    return (shared, *(_relabel(shared, entry) for entry in (best, *rest)), *extra)


def _relabel(fastest: PlanEntry, entry: PlanEntry) -> PlanEntry:
    """The entry without the labels that a faster plan takes from it."""
    near = entry.estimate.step_s <= WITHIN * fastest.estimate.step_s
    kept = (label for label in entry.labels if label != "fastest" and (near or label != SIMPLEST))
    return replace(entry, labels=tuple(kept))


def _one(case: PlanCase, found: Found, row: int, labels: Mapping[int, Sequence[str]]) -> PlanEntry:
    full = estimate(case.costs, case.cluster, found.plan(row, case.batches), case.wishes.habits)
    return _entry(case, full, case.cluster, labels.get(row, ()))


def _cheapest(case: PlanCase, points: Sequence[ScalePoint], best: PlanEntry) -> PlanEntry | None:
    """The plan on fewer GPUs that takes clearly fewer GPU-seconds per sample, if there is one."""
    known = [point for point in points if point.strong is not None]
    if not known:
        return None
    point = min(known, key=_gpu_seconds)
    if point.strong is None or point.gpu_count == case.cluster.gpu_count:
        return None
    if _gpu_seconds(point) > _CLEARLY * case.cluster.gpu_count / best.samples_per_s:
        return None
    return _entry(case, point.strong, case.cluster.of_count(point.gpu_count), ("fewest GPU-hours",))


def _gpu_seconds(point: ScalePoint) -> float:
    """GPU-seconds per sample."""
    return point.gpu_count * point.strong.step_s / point.strong.samples if point.strong else np.inf


def plain_entry(case: PlanCase) -> PlanEntry | None:
    """What most people start with: every GPU holds the model and runs its share of the samples, in as few micro-batches as fit,
    or in the smallest ones if none fits. None on one GPU, or if some GPU would have no sample."""
    cluster, batch = case.cluster, case.wishes.global_batch
    mesh = Mesh(data=cluster.gpu_count)
    counts = {size: micro_count(mesh, batch, size) for size in sorted(case.batches.astype(int).tolist(), reverse=True)}
    if cluster.gpu_count == 1 or batch < cluster.gpu_count or not any(counts.values()):
        return None
    for size, count in counts.items():
        if count:
            short = size * count * cluster.gpu_count - batch
            plan = Plan(mesh=mesh, micro_batch=size, micro_count=count, short=short, schedule=case.wishes.schedule)
            found = estimate(case.costs, cluster, plan, case.wishes.habits)
            if found.memory.total_bytes <= case.wishes.memory_bytes:
                return _entry(case, found, cluster, (PLAIN,))
    usable = min(gpu.usable_memory_bytes for gpu, _ in cluster.kinds)
    verdict = "does not fit" if found.memory.total_bytes > usable else "may not fit"
    return _entry(case, found, cluster, (f"{PLAIN}: {verdict}",))


def _entry(case: PlanCase, one: Estimate, cluster: Cluster, labels: Sequence[str]) -> PlanEntry:
    workload, alone = case.costs.parts.workload, _alone(case, one, cluster)
    if one.plan.is_plain:
        one = replace(one, step_s=float(alone.step_s[0, 0]))
    bound = alone.bound_name() if one.plan.is_plain else _bound(case, one, alone)
    width = plan_width(
        case.query.step.run.measured,
        [gpu for gpu, _ in cluster.kinds],
        bound,
        coverage(workload).bytes_fraction,
        divided=not one.plan.divides_samples_only,
    )
    peak = step_peak(cluster.gpu, workload.precision, tf32_fraction(workload, case.costs.setting, cluster.gpu))
    return PlanEntry(
        estimate=one,
        gpu_count=cluster.gpu_count,
        samples=one.samples,
        labels=tuple(labels),
        width=width,
        mfu_fraction=one.flops / (one.step_s * peak * cluster.gpu_count) if peak else 0.0,
        bound=bound,
        recipes=recipes(one.plan, cluster, case.costs.parts),
        fits=one.memory.total_bytes <= case.wishes.memory_bytes,
    )


def _alone(case: PlanCase, one: Estimate, cluster: Cluster) -> Steps:
    """The step that `predict` gives for a micro-batch of this plan on the slowest GPU, with only the samples divided."""
    workload, costs = case.costs.parts.workload, case.costs
    run = replace(case.query.step.run, gpu_count=cluster.gpu_count, cluster=cluster)
    return predict_steps(workload, [costs.gpu], run, [one.plan.micro_batch], correction=case.correction, by_kind=False)


def _bound(case: PlanCase, one: Estimate, alone: Steps) -> str:
    """The largest part of the step; the kernels decide between compute and memory."""
    costs, last = case.costs, alone.last
    parts = {
        "communication": one.exposed_comm_s,
        "bubble": one.bubble_s,
        "launch": one.wait_s,
        "compute": one.compute_s + one.recompute_s + one.update_s,
    }
    largest = max(parts, key=lambda name: parts[name])
    if largest != "compute":
        return largest
    shares = {name: float(last.shares[name][0, 0]) for name in ("compute", "memory")}
    busy_s = float(last.lanes["gpu"][0, 0])
    passes_s = busy_s - costs.update[0] * costs.memory(Degrees()).total_parameters
    # The update only moves memory and runs as often as in the plan: divided by ZeRO, once for many micro-batches.
    products = min(1.0, shares["compute"] / sum(shares.values()) * busy_s / max(passes_s, 1e-12))
    computing = products * (one.compute_s + one.recompute_s)
    return "compute" if computing >= parts["compute"] / 2.0 else "memory"


def _shared(case: PlanCase, best: PlanEntry) -> PlanEntry | None:
    """Different cards, each with samples in proportion to its speed, if that beats the best plan."""
    one = best.estimate
    mesh = one.plan.mesh
    if not case.cluster.is_mixed or mesh.data != mesh.ranks or one.plan.zero_stage > 1:
        return None
    found = proportional(case.kinds, case.wishes.global_batch)
    if found is None:
        return None
    shares, seconds = found
    busy = seconds + one.exposed_comm_s + one.update_s
    step = busy * (1.0 + waits_fraction(mesh.ranks))
    if step >= one.step_s:
        return None
    named = tuple((costs.gpu.name, share) for (costs, _), share in zip(case.kinds, shares, strict=True))
    changed = replace(one, step_s=step, compute_s=seconds, wait_s=step - busy)
    return replace(
        best,
        estimate=changed,
        labels=("fastest", "samples in proportion to speed"),
        shares=named,
    )
