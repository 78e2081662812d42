"""Selects the few plans worth knowing from all that were tried, each with its range, what limits it and its recipes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuwise.prediction import Steps, predict_steps
from gpuwise.prediction.ranges import plan_width
from gpuwise.questions.common.peaks import step_peak, tf32_fraction
from gpuwise.questions.common.plan_case import PlanCase, usable_bytes
from gpuwise.questions.plan.fewer import Fewer
from gpuwise.questions.plan.types import BY_SPEED, CHEAPEST, FASTEST, ON_ALL, PLAIN, SIMPLEST, PlanEntry
from gpuwise.scale.cluster.shape import Cluster
from gpuwise.scale.plans.mixed import Shared, proportional
from gpuwise.scale.plans.recipes import recipes, shared_recipe
from gpuwise.scale.plans.rules import AXES, micro_count
from gpuwise.scale.plans.search import WITHIN, Found, estimate, simplest
from gpuwise.scale.plans.types import Estimate, Mesh, Plan
from gpuwise.scale.split.share import Degrees
from gpuwise.workload.model.coverage import coverage

__all__ = ["plain_entry", "plan_entries", "share_by_speed"]

_MOST_SHOWN = 7  # plans that a reader can compare at a glance
_CLEARLY = 0.98  # of the GPU-seconds: a plan on fewer GPUs that saves less is not shown


def plan_entries(case: PlanCase, found: Found, fewer: Sequence[Fewer]) -> tuple[PlanEntry, ...]:
    """Return the fastest plan, the simplest that is nearly as fast, the one with the fewest GPU-hours, and the next fastest.
    The fastest comes first, on however many GPUs, unless the user fixed how to divide the work; then plans on all GPUs come
    first.
    """
    known = [one for one in fewer if one.point.strong is not None]
    whole = _on_all(case, found) if found.fits.any() else []
    labels = _labels_of_fewer(case, whole, known)
    some = [
        _entry(one.case, one.point.strong, one.cluster, labels[place], gpu=one.point.gpu)
        for place, one in enumerate(known)
        if one.point.strong is not None and labels[place]
    ]
    whole = _relabelled(whole, some, counted=case.query.scaling)[: _MOST_SHOWN - len(some)]
    first = [entry for entry in some if FASTEST in entry.labels and not _fixes_axes(case)]
    return (*first, *whole, *(entry for entry in some if entry not in first))


def _fixes_axes(case: PlanCase) -> bool:
    return any(name in case.query.limits.fixed for name in (*AXES, "micro_batch"))


def _on_all(case: PlanCase, found: Found) -> list[PlanEntry]:
    """The plans on all GPUs that are worth knowing, fastest first."""
    easy = simplest(found, case.batches)
    rows: dict[tuple[Any, ...], int] = {}
    for row in found.order().tolist():
        one = found.plan(row, case.batches)
        rows.setdefault((replace(one.mesh, chunks=1), one.zero_stage, one.recompute, one.offload), row)
        if len(rows) >= _MOST_SHOWN:
            break
    chosen = [*rows.values()]
    labels = {chosen[0]: [FASTEST]}
    shared = _by_speed(case, found)
    room = _MOST_SHOWN - 1 - (shared is not None)
    if easy is not None:
        labels.setdefault(easy, []).append(SIMPLEST)
        chosen = chosen[:room] if easy in chosen[:room] else [*chosen[: room - 1], easy]
    entries = [_one(case, found, row, labels) for row in chosen]
    if shared is None or shared.estimate.step_s >= entries[0].estimate.step_s:
        return entries
    return [shared, *(_relabel(shared.estimate.step_s, entry) for entry in entries)]


def _labels_of_fewer(case: PlanCase, whole: Sequence[PlanEntry], known: Sequence[Fewer]) -> list[tuple[str, ...]]:
    """Why each plan on fewer GPUs is worth knowing; empty where it is not."""
    labels: list[list[str]] = [[] for _ in known]
    if not known:
        return []
    rate = whole[0].samples_per_s if whole else 0.0
    quick = max(range(len(known)), key=lambda place: known[place].rate)
    if known[quick].rate > rate:
        labels[quick].append(FASTEST)
    easy = _simplest_of_fewer(whole, known)
    if easy is not None:
        labels[easy].append(SIMPLEST)
    if case.query.scaling:
        cheap = max(range(len(known)), key=lambda place: known[place].rate / known[place].point.gpu_count)
        each = known[cheap].rate / known[cheap].point.gpu_count
        if rate / case.cluster.gpu_count < _CLEARLY * each:
            labels[cheap].append(CHEAPEST)
    return [tuple(each) for each in labels]


def _simplest_of_fewer(whole: Sequence[PlanEntry], known: Sequence[Fewer]) -> int | None:
    """Return the plan on fewer GPUs that divides less than any plan on all of them, or the same but faster, among those nearly
    as fast as the fastest.
    """
    fast = max([one.rate for one in known] + [entry.samples_per_s for entry in whole])
    ranks = [
        (one.point.strong.plan.complexity[0], -one.rate, place)
        for place, one in enumerate(known)
        if one.point.strong is not None and WITHIN * one.rate >= fast
    ]
    others = [
        (entry.estimate.plan.complexity[0], -entry.samples_per_s)
        for entry in whole
        if SIMPLEST in entry.labels and WITHIN * entry.samples_per_s >= fast
    ]
    best = min(ranks, default=None)
    return None if best is None or min(others, default=best[:2]) < best[:2] else best[2]


def _relabelled(whole: list[PlanEntry], some: Sequence[PlanEntry], *, counted: bool) -> list[PlanEntry]:
    """Plans on all GPUs without the labels that plans on fewer take from them."""
    taken = {label for entry in some for label in entry.labels}
    if FASTEST in taken:
        fastest_s = min(entry.estimate.step_s for entry in some)
        whole = [_relabel(fastest_s, entry) for entry in whole]
        whole[:1] = [replace(entry, labels=(ON_ALL, *entry.labels)) for entry in whole[:1]]
    if SIMPLEST in taken:
        whole = [replace(entry, labels=tuple(label for label in entry.labels if label != SIMPLEST)) for entry in whole]
    if counted and CHEAPEST not in taken:
        whole[:1] = [replace(entry, labels=(*entry.labels, CHEAPEST)) for entry in whole[:1]]
    return whole


def _relabel(fastest_s: float, entry: PlanEntry) -> PlanEntry:
    """The entry without the labels that a faster plan takes from it."""
    near = entry.estimate.step_s <= WITHIN * fastest_s
    kept = (label for label in entry.labels if label != FASTEST and (near or label != SIMPLEST))
    return replace(entry, labels=tuple(kept))


def _one(case: PlanCase, found: Found, row: int, labels: Mapping[int, Sequence[str]]) -> PlanEntry:
    full = estimate(case.costs, case.cluster, found.plan(row, case.batches), case.wishes.habits)
    return _entry(case, full, case.cluster, labels.get(row, ()))


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


def _entry(case: PlanCase, one: Estimate, cluster: Cluster, labels: Sequence[str], gpu: str = "") -> PlanEntry:
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
    setting, count = case.costs.setting, sum(number for _, number in cluster.kinds)
    peaks = [(step_peak(gpu, workload.precision, tf32_fraction(workload, setting, gpu)) or 0.0, n) for gpu, n in cluster.kinds]
    peak = sum(value * number for value, number in peaks) / count
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
        gpu=gpu,
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


def _by_speed(case: PlanCase, found: Found) -> PlanEntry | None:
    """Different cards, each with samples in proportion to its speed, compared with the fastest plan that only divides samples."""
    one = share_by_speed(case, found)
    if one is None:
        return None
    shares = tuple(zip([costs.gpu.name for costs, _ in case.kinds], one.shares, strict=True))
    entry = _entry(case, one.estimate, case.cluster, (FASTEST, BY_SPEED))
    shorter = entry.estimate.step_s / one.estimate.step_s
    return replace(
        entry,
        estimate=one.estimate,
        mfu_fraction=entry.mfu_fraction * shorter,
        recipes=(shared_recipe(case.cluster, shares, one.micro_counts, case.wishes.global_batch),),
        shares=shares,
        fits=True,
    )


def share_by_speed(case: PlanCase, found: Found) -> Shared | None:
    """Return the step of different cards that get samples in proportion to their speed, if the user's options allow that."""
    rows = found.order().tolist() if case.cluster.is_mixed and not _fixes_micro_batch(case) else []
    row = next((row for row in rows if found.plan(row, case.batches).divides_samples_only), None)
    if row is None:
        return None
    even = estimate(case.costs, case.cluster, found.plan(row, case.batches), case.wishes.habits)
    usable = {gpu.name: usable_bytes(gpu) for gpu, _ in case.cluster.kinds}
    return proportional(case.kinds, case.cluster, case.wishes, usable, even)


def _fixes_micro_batch(case: PlanCase) -> bool:
    """Whether the user fixed what cards in proportion to their speed would have to choose."""
    fixed = case.query.limits.fixed
    return "micro_batch" in fixed or fixed.get("recompute", "none") != "none" or fixed.get("zero_stage", 0) > 0
