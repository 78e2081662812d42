"""Do more GPUs help, and how should the work be split?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuwise.api.backends import maker_notes
from gpuwise.api.executors import executor_on
from gpuwise.api.peaks import step_peak, tf32_fraction
from gpuwise.api.plan_answer import PlanAnswer, PlanEntry, Separate
from gpuwise.api.plan_question import PlanQuery
from gpuwise.api.predictions import correction
from gpuwise.api.question import Assumption, assumed, check_precision, workload_of
from gpuwise.errors import BadValue
from gpuwise.evidence.parallel import unknown_range
from gpuwise.evidence.ranges import UNMEASURED_RANGE, knows_vendor
from gpuwise.hardware import tables
from gpuwise.scale.cluster import MOST_GPUS, Cluster, parse_cluster
from gpuwise.scale.costs import Costs
from gpuwise.scale.data_parallel import habits_of, waits_fraction
from gpuwise.scale.low_precision import in_low
from gpuwise.scale.mixed import proportional, slowest
from gpuwise.scale.parts import Parts, parts_of
from gpuwise.scale.plan_types import Estimate, Mesh
from gpuwise.scale.price import Sizes
from gpuwise.scale.recipes import recipes
from gpuwise.scale.rules import AXES, Limits, divisors, micro_count, whynot
from gpuwise.scale.scaling import ScalePoint, batch_of, counts_of, faster_links, scale_points, stops_at
from gpuwise.scale.search import WITHIN, Found, Wishes, estimate, search, simplest
from gpuwise.scale.share import Degrees
from gpuwise.step.device_memory import memory_data
from gpuwise.step.simulate import simulate
from gpuwise.step.stacks import as_run
from gpuwise.workload.types import Workload

__all__ = ["plan"]

_MOST_SHOWN = 7
_MOST_SIZES = 32
_MOST_PARTS = 4  # micro-batches that a share which does not divide is cut into
_TRIED_ON_LINKS = 12
_NODE = 8
_SURE = 0.9
_CLEARLY = 0.98  # of the GPU-seconds: fewer GPUs that save less are not worth a line


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A question with all that answers it."""

    query: PlanQuery
    cluster: Cluster
    costs: Costs
    wishes: Wishes
    kinds: tuple[tuple[Costs, int], ...]
    notes: tuple[Assumption, ...]

    @property
    def batches(self) -> Any:
        return self.costs.sizes.batches


def plan(query: PlanQuery, *, progress: Callable[[str], None] = lambda text: None) -> PlanAnswer:
    """The best plans of a model on a cluster, what more GPUs bring, and what holds it up."""
    case = _case(query, progress)
    progress("trying every plan")
    with executor_on(query.on) as executor:
        found = search(case.costs, case.cluster, case.wishes, executor=executor)
        if not found.fits.any():
            return _answer(case, found, (), (), smallest=_smallest(case, progress))
        progress("asking fewer GPUs")
        points = _points(case, executor) if query.scaling else ()
    return _answer(case, found, _entries(case, found, points), points)


# ---------------------------------------------------------------- the case


def _case(query: PlanQuery, progress: Callable[[str], None]) -> _Case:
    cluster, step = query.cluster, query.step
    workload = workload_of(step, progress)
    if workload.mode != "train":
        raise BadValue("plans are for training", hint="`gpuwise fit` splits a model for inference")
    if np.any(np.diff(workload.calls.phase) < 0):
        raise BadValue(f"{workload.model} was captured with several micro-batches", hint="capture one; a plan chooses how many")
    check_precision(workload.precision, [gpu for gpu, _ in cluster.kinds])
    seq = step.capture.request.seq
    if seq is not None and "seq" in workload.symbols:
        workload = replace(workload, seq=seq)
    if workload.precision == "fp8":
        workload = in_low(workload)
    parts = parts_of(workload)
    notes = [*query.assumptions, *step.assumptions]
    batch = query.batch or workload.batch * cluster.gpu_count
    if query.batch is None:
        notes.append(
            assumed("batch", f"{batch:,}", f"{workload.batch} a GPU, as the model is usually trained; `--batch` is of all GPUs")
        )
    _check_limits(parts, cluster, query.limits, batch)
    sizes = Sizes(batches=_sizes(workload, cluster, batch, query.limits), seq=_seq(workload))
    setting = as_run(step.setting, workload)
    factor, measured = correction(workload, step)
    notes += [*measured, *(note for gpu, _ in cluster.kinds for note in maker_notes(gpu, step.setting.stack.name))]
    setting = replace(setting, stack=replace(setting.stack, factor=setting.stack.factor * factor))
    limit = step.power_limit_watts
    costs = [Costs(parts=parts, gpu=gpu, setting=setting, sizes=sizes, power_limit_watts=limit) for gpu, _ in cluster.kinds]
    kinds = tuple(zip(costs, (count for _, count in cluster.kinds), strict=True))
    memory = min(gpu.usable_memory_bytes for gpu, _ in cluster.kinds) / _margin()
    wishes = Wishes(
        global_batch=batch, memory_bytes=memory, limits=query.limits, schedule=query.schedule, habits=habits_of(setting)
    )
    return _Case(query=query, cluster=cluster, costs=costs[slowest(costs)], wishes=wishes, kinds=kinds, notes=tuple(notes))


def _margin() -> float:
    """What nine of ten measured jobs needed at most over what was predicted for them: a plan should run, not just perhaps."""
    known = memory_data().ranges["device"]
    return float(np.interp(_SURE, known.probability, known.ratio))


def _seq(workload: Workload) -> float | None:
    return float(workload.seq) if workload.seq is not None and "seq" in workload.symbols else None


def _sizes(workload: Workload, cluster: Cluster, batch: int, limits: Limits) -> Any:
    """Micro-batches worth trying: powers of two, and what divides the samples of a GPU."""
    if "batch" not in workload.symbols:
        return np.array([float(workload.batch)])
    if "micro_batch" in limits.fixed:
        return np.array([float(limits.fixed["micro_batch"])])
    powers = [1 << power for power in range(batch.bit_length())]
    shares = [batch // data for data in divisors(cluster.gpu_count) if batch % data == 0]
    few = [batch_of(batch, count) // count for count in range(2, min(cluster.gpus_per_node, _NODE) + 1)]
    few += [-(-batch // (count * parts)) for count in counts_of(cluster) if batch % count for parts in range(1, _MOST_PARTS + 1)]
    found = {size for size in (*powers, *shares, *few, *divisors(shares[-1])) if size <= batch}
    ordered = sorted(found, key=lambda size: (size not in (*powers, *shares, *few), size))
    return np.array(sorted(ordered[:_MOST_SIZES]), dtype=float)


def _check_limits(parts: Parts, cluster: Cluster, limits: Limits, batch: int) -> None:
    """Refuse what cannot be done, with the reason."""
    fixed = limits.fixed
    for axis in AXES:
        reason = whynot(parts, cluster, axis, fixed.get(axis, 1))
        if reason:
            raise BadValue(reason, hint=f"leave `--{axis}` out to see what is possible")
    named = [axis for axis in AXES[:4] if axis in fixed]
    ranks = int(np.prod([fixed[axis] for axis in named]))
    if cluster.gpu_count % ranks or (len(named) == len(AXES[:4]) and ranks != cluster.gpu_count):
        asked = " x ".join(f"{axis} {fixed[axis]}" for axis in named)
        raise BadValue(f"{asked} does not divide {cluster.gpu_count} GPUs", hint="their product must divide the number of GPUs")
    data = fixed.get("data", 1)
    if batch % data and (data < cluster.gpu_count or batch < data):
        raise BadValue(f"a batch of {batch:,} does not divide by --data {data}", hint="a multiple of it for `--batch`")
    micro = fixed.get("micro_batch", 1)
    degrees = [data] if "data" in fixed else divisors(cluster.gpu_count)
    if not any(batch % (ranks * micro) == 0 or _uneven(cluster, batch, ranks, micro) for ranks in degrees):
        raise BadValue(
            f"a batch of {batch:,} has no whole micro-batches of {micro} on each rank", hint="a multiple of it for `--batch`"
        )
    stages = fixed.get("pipeline", 1) * fixed.get("chunks", 1)
    if fixed.get("chunks", 1) > 1 and len(parts.kinds) % stages:
        raise BadValue(
            f"{len(parts.kinds)} blocks do not make {stages} equal chunks", hint="leave `--chunks` out to see what is possible"
        )


def _uneven(cluster: Cluster, batch: int, ranks: int, micro: int) -> bool:
    """Whether samples alone are divided, some micro-batches being one smaller."""
    return ranks == cluster.gpu_count and micro_count(Mesh(data=ranks), batch, micro) > 0


# ---------------------------------------------------------------- what is answered


def _points(case: _Case, executor: Executor | None) -> tuple[ScalePoint, ...]:
    """What the user fixed holds for the whole cluster; fewer GPUs need another plan and choose freely."""
    free = {name: value for name, value in case.query.limits.fixed.items() if name not in (*AXES, "micro_batch")}
    wishes = replace(case.wishes, limits=Limits(fixed=free))
    *fewer, whole = counts_of(case.cluster) if not case.cluster.is_mixed else (1, case.cluster.gpu_count)
    last = scale_points(case.costs, case.cluster, case.wishes, [whole])
    return (*scale_points(case.costs, case.cluster, wishes, fewer, executor=executor), *last)


def _entries(case: _Case, found: Found, points: Sequence[ScalePoint]) -> tuple[PlanEntry, ...]:
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
        labels.setdefault(easy, []).append("simplest within 5 %")
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
    return (shared, *(_beside(shared, entry) for entry in (best, *rest)), *extra)


def _beside(fastest: PlanEntry, entry: PlanEntry) -> PlanEntry:
    """Without the labels that it had before a faster one was found."""
    near = entry.estimate.step_s <= WITHIN * fastest.estimate.step_s
    kept = (label for label in entry.labels if label != "fastest" and (near or not label.startswith("simplest")))
    return replace(entry, labels=tuple(kept))


def _one(case: _Case, found: Found, row: int, labels: Mapping[int, Sequence[str]]) -> PlanEntry:
    full = estimate(case.costs, case.cluster, found.plan(row, case.batches), case.wishes.habits)
    return _entry(case, full, case.cluster, labels.get(row, ()))


def _cheapest(case: _Case, points: Sequence[ScalePoint], best: PlanEntry) -> PlanEntry | None:
    """On fewer GPUs, if that takes clearly fewer GPU-seconds a sample."""
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
    """For one sample."""
    return point.gpu_count * point.strong.step_s / point.strong.samples if point.strong else np.inf


def _entry(case: _Case, one: Estimate, cluster: Cluster, labels: Sequence[str]) -> PlanEntry:
    low, high = _width(cluster)
    workload = case.costs.parts.workload
    peak = step_peak(cluster.gpu, workload.precision, tf32_fraction(workload, case.costs.setting, cluster.gpu))
    return PlanEntry(
        estimate=one,
        gpu_count=cluster.gpu_count,
        samples=one.samples,
        labels=tuple(labels),
        low_s=one.step_s * low,
        high_s=one.step_s * high,
        mfu_fraction=one.flops / (one.step_s * peak * cluster.gpu_count) if peak else 0.0,
        bound=_bound(case, one),
        recipes=recipes(one.plan, cluster, case.costs.parts),
    )


def _width(cluster: Cluster) -> tuple[float, float]:
    """Measured over predicted time; assumed, and no narrower, where no GPU of a maker was measured."""
    low, high = unknown_range()
    if all(knows_vendor(gpu) for gpu, _ in cluster.kinds):
        return low, high
    return min(low, UNMEASURED_RANGE[0]), max(high, UNMEASURED_RANGE[1])


def _bound(case: _Case, one: Estimate) -> str:
    """The largest part of the step; computing is told apart from memory by the kernels."""
    parts = {
        "communication": one.exposed_comm_s,
        "bubble": one.bubble_s,
        "launch": one.wait_s,
        "compute": one.compute_s + one.recompute_s + one.update_s,
    }
    largest = max(parts, key=lambda name: parts[name])
    if largest != "compute":
        return largest
    workload, costs = case.costs.parts.workload, case.costs
    at: dict[str, Any] = {
        "batch": np.array([float(one.plan.micro_batch)]) if "batch" in workload.symbols else None,
        "seq": costs.sizes.seq,
    }
    steps = simulate(workload, [costs.gpu], costs.setting, **at, power_limit_watts=costs.power_limit_watts)
    shares = {name: float(steps.shares[name][0, 0]) for name in ("compute", "memory")}
    busy_s = float(steps.lanes["gpu"][0, 0])
    passes_s = busy_s - costs.update[0] * costs.memory(Degrees()).total_parameters
    # the update reads and writes memory, and is here as often as in the plan: divided by ZeRO, once for many micro-batches
    products = min(1.0, shares["compute"] / sum(shares.values()) * busy_s / max(passes_s, 1e-12))
    computing = products * (one.compute_s + one.recompute_s)
    return "compute" if computing >= parts["compute"] / 2.0 else "memory"


def _shared(case: _Case, best: PlanEntry) -> PlanEntry | None:
    """Different cards, each with samples in proportion to its speed, where that beats the best plan."""
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
    scale = step / one.step_s
    named = tuple((costs.gpu.name, share) for (costs, _), share in zip(case.kinds, shares, strict=True))
    changed = replace(one, step_s=step, compute_s=seconds, wait_s=step - busy)
    return replace(
        best,
        estimate=changed,
        low_s=best.low_s * scale,
        high_s=best.high_s * scale,
        labels=("fastest", "samples by speed"),
        shares=named,
    )


def _smallest(case: _Case, progress: Callable[[str], None]) -> tuple[str, int] | None:
    """The smallest cluster of the same GPUs on which some plan fits: any number within a node, then doubling."""
    begun, gpu = case.cluster.gpu_count, case.cluster.gpu
    larger = (max(begun, _NODE) << step for step in range(1, MOST_GPUS.bit_length()))
    for count in (*range(begun + 1, _NODE + 1), *(each for each in larger if each <= MOST_GPUS)):
        text = f"{count}x{gpu.name}" if count <= _NODE else f"{count // _NODE}x{_NODE}x{gpu.name}"
        progress(f"trying {text}")
        try:
            cluster, _ = parse_cluster(text)
        except BadValue:
            continue
        batch = -(-case.wishes.global_batch // count) * count
        wishes = replace(
            case.wishes,
            global_batch=batch,
            limits=Limits(fixed={"recompute": "full", "offload": case.query.limits.fixed["offload"]}),
        )
        if search(case.costs, cluster, wishes).fits.any():
            return text, count
    return None


def _answer(
    case: _Case,
    found: Found,
    entries: tuple[PlanEntry, ...],
    points: tuple[ScalePoint, ...],
    smallest: tuple[str, int] | None = None,
) -> PlanAnswer:
    best = entries[0].estimate if entries else None
    plans = [found.plan(int(row), case.batches) for row in found.order()[:_TRIED_ON_LINKS]]
    links = faster_links(case.costs, case.cluster, plans, case.wishes, best.step_s) if best else ()
    workload = case.costs.parts.workload
    return PlanAnswer(
        model=workload.model,
        cluster=case.cluster,
        batch=case.wishes.global_batch,
        seq=workload.seq,
        precision=workload.precision,
        optimizer=workload.optimizer,
        entries=entries,
        tried=len(found),
        fitting=int(found.fits.sum()),
        rejected=Counter(found.rejected),
        points=points,
        stops_at=stops_at(points),
        links=links,
        separate=_separate(case, points),
        smallest=smallest,
        least_bytes=float(found.memory.min()) if len(found) else 0.0,
        assumptions=case.notes,
        data_date=tables.data_date(),
    )


def _separate(case: _Case, points: Sequence[ScalePoint]) -> Separate | None:
    """As many jobs as the GPUs make, each on the fewest that hold one, against one job of all."""
    known = [point for point in points if point.weak is not None]
    if len(known) < 2 or known[-1].gpu_count != case.cluster.gpu_count:
        return None
    first, last = known[0], known[-1]
    if first.weak is None or last.weak is None:
        return None
    each = first.weak.samples / first.weak.step_s
    jobs = case.cluster.gpu_count // first.gpu_count
    return Separate(
        jobs=jobs,
        gpus_each=first.gpu_count,
        samples_per_s=jobs * each,
        one_job_samples_per_s=last.weak.samples / last.weak.step_s,
    )
