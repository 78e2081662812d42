"""Do more GPUs help, and how should the work be split?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption
from gpuwise.engine.ranges import range_notes
from gpuwise.hardware import tables
from gpuwise.questions.common.plan_case import NODE, PlanCase, plan_case
from gpuwise.questions.common.runs.executors import executor_on
from gpuwise.questions.face import face
from gpuwise.questions.plan.ask import ask
from gpuwise.questions.plan.entries import plain_entry, plan_entries
from gpuwise.questions.plan.options import PlanOptions
from gpuwise.questions.plan.types import PLAIN, PlanAnswer, PlanEntry, SeparateJobs
from gpuwise.scale.cluster.parse import parse_cluster
from gpuwise.scale.cluster.shape import MOST_GPUS
from gpuwise.scale.plans.rules import AXES, Limits
from gpuwise.scale.plans.scaling import ScalePoint, counts_of, faster_links, scale_points, stops_at
from gpuwise.scale.plans.search import Found, search

__all__ = ["answer", "plan"]

_TRIED_ON_LINKS = 12  # plans: a faster link may favour one that is not the fastest now


def answer(options: PlanOptions, progress: Callable[[str], None] = lambda text: None) -> PlanAnswer:
    """The best plans for a model on a cluster, the gain from more GPUs, and the bottleneck."""
    query = ask(options)
    case = plan_case(query, progress)
    progress("trying every plan")
    with executor_on(query.on) as executor:
        found = search(case.costs, case.cluster, case.wishes, executor=executor)
        if not found.fits.any():
            return _answer(case, found, (), (), smallest=_smallest(case, progress))
        progress("planning for fewer GPUs")
        points = _points(case, executor) if query.scaling else ()
    return _answer(case, found, plan_entries(case, found, points), points)


# ---------------------------------------------------------------- what is answered


def _points(case: PlanCase, executor: Executor | None) -> tuple[ScalePoint, ...]:
    """Throughput by number of GPUs. What the user fixed applies to the whole cluster; on fewer GPUs the search is free."""
    free = {name: value for name, value in case.query.limits.fixed.items() if name not in (*AXES, "micro_batch")}
    wishes = replace(case.wishes, limits=Limits(fixed=free))
    *fewer, whole = counts_of(case.cluster) if not case.cluster.is_mixed else (1, case.cluster.gpu_count)
    last = scale_points(case.costs, case.cluster, case.wishes, [whole])
    return (*scale_points(case.costs, case.cluster, wishes, fewer, executor=executor), *last)


def _smallest(case: PlanCase, progress: Callable[[str], None]) -> tuple[str, int] | None:
    """The smallest cluster of the same GPUs on which a plan fits, with everything that is fixed: any number within a node,
    then doubling."""
    begun, gpu = case.cluster.gpu_count, case.cluster.gpu
    limits = Limits(
        fixed={"recompute": "full"} | case.query.limits.fixed
    )  # needs the least memory, unless the user chose another
    larger = (max(begun, NODE) << step for step in range(1, MOST_GPUS.bit_length()))
    for count in (*range(begun + 1, NODE + 1), *(each for each in larger if each <= MOST_GPUS)):
        text = f"{count}x{gpu.name}" if count <= NODE else f"{count // NODE}x{NODE}x{gpu.name}"
        progress(f"trying {text}")
        try:
            cluster, _ = parse_cluster(text)
        except BadValue:
            continue
        batch = case.query.batch or case.wishes.global_batch // begun * count
        wishes = replace(case.wishes, global_batch=batch, limits=limits)
        if search(case.costs, cluster, wishes).fits.any():
            return text, count
    return None


def _answer(
    case: PlanCase,
    found: Found,
    entries: tuple[PlanEntry, ...],
    points: tuple[ScalePoint, ...],
    smallest: tuple[str, int] | None = None,
) -> PlanAnswer:
    best, plain = entries[0].estimate if entries else None, plain_entry(case)
    entries = tuple(_label_plain(entry, plain) for entry in entries)
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
        plain=plain,
        tried=len(found),
        fitting=int(found.fits.sum()),
        rejected=Counter(found.rejected),
        points=points,
        stops_at=stops_at(points),
        links=links,
        separate=_separate(case, points),
        smallest=smallest,
        fixed=tuple(name for name, value in case.query.limits.fixed.items() if value is not False),
        least_bytes=float(found.memory.min()) if len(found) else 0.0,
        assumptions=(*case.notes, *_range_notes(entries, plain)),
        data_date=tables.data_date(),
    )


def _label_plain(entry: PlanEntry, plain: PlanEntry | None) -> PlanEntry:
    """The entry, labelled if it is the plain plan."""
    if plain is None or entry.gpu_count != plain.gpu_count or entry.shares or not entry.estimate.plan.divides_samples_only:
        return entry
    one, other = entry.estimate.plan, plain.estimate.plan
    same = (one.micro_batch, one.recompute) == (other.micro_batch, other.recompute)
    return replace(entry, labels=(*entry.labels, PLAIN)) if same else entry


def _range_notes(entries: Sequence[PlanEntry], plain: PlanEntry | None) -> list[Assumption]:
    """What the ranges of the plans shown are based on."""
    shown = [*entries, *([plain] if plain and entries else [])]
    alone = [entry.width for entry in shown if entry.estimate.plan.divides_samples_only]
    divided = [entry.width for entry in shown if not entry.estimate.plan.divides_samples_only]
    return range_notes(*(next(iter(widths), None) for widths in (alone, divided)))


def _separate(case: PlanCase, points: Sequence[ScalePoint]) -> SeparateJobs | None:
    """As many jobs as possible, each on the fewest GPUs that hold it, against one job on all."""
    known = [point for point in points if point.weak is not None]
    if len(known) < 2 or known[-1].gpu_count != case.cluster.gpu_count:
        return None
    first, last = known[0], known[-1]
    if first.weak is None or last.weak is None:
        return None
    each = first.weak.samples / first.weak.step_s
    jobs = case.cluster.gpu_count // first.gpu_count
    return SeparateJobs(
        jobs=jobs,
        gpus_each=first.gpu_count,
        samples_per_s=jobs * each,
        one_job_samples_per_s=last.weak.samples / last.weak.step_s,
    )


plan = face(PlanOptions, answer)
