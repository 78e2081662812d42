"""Do more GPUs help, and how should the work be split?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption
from gpuwise.hardware import tables
from gpuwise.prediction.ranges import range_notes
from gpuwise.questions.common.plan_case import NODE, PlanCase, plan_case
from gpuwise.questions.common.runs.executors import executor_on
from gpuwise.questions.face import face
from gpuwise.questions.plan.ask import ask
from gpuwise.questions.plan.entries import plain_entry, plan_entries, share_by_speed
from gpuwise.questions.plan.fewer import Fewer, fewer_gpus, points_of, single_gpus
from gpuwise.questions.plan.options import PlanOptions
from gpuwise.questions.plan.remedies import remedies_of
from gpuwise.questions.plan.types import PLAIN, PlanAnswer, PlanEntry, SeparateJobs
from gpuwise.scale.cluster.parse import parse_cluster
from gpuwise.scale.cluster.shape import MOST_GPUS, Cluster
from gpuwise.scale.plans.rules import Limits
from gpuwise.scale.plans.scaling import FasterLink, ScalePoint, faster_links, step_with, stops_at
from gpuwise.scale.plans.search import Found, estimate, search

__all__ = ["answer", "plan"]

_SEVERAL = 2  # jobs
_TRIED_ON_LINKS = 12  # plans: a faster link may favour one that is not the fastest now


def answer(options: PlanOptions, progress: Callable[[str], None] = lambda text: None) -> PlanAnswer:
    """The best plans for a model on a cluster, the gain from more GPUs, and the bottleneck."""
    query = ask(options)
    case = plan_case(query, progress)
    progress("trying every plan")
    with executor_on(query.on) as executor:
        found = search(case.costs, case.cluster, case.wishes, executor=executor)
        usable = min(gpu.usable_memory_bytes for gpu, _ in case.cluster.kinds)
        if len(found) and not found.fits.any() and found.memory.min() <= usable:  # with less to spare than is safe
            case = replace(case, wishes=replace(case.wishes, memory_bytes=usable))
            found = search(case.costs, case.cluster, case.wishes, executor=executor)
        if not found.fits.any() and not case.cluster.is_mixed:
            return _answer(case, found, (), (), progress)
        progress("planning for fewer GPUs")
        fewer = fewer_gpus(case, executor)
    return _answer(case, found, plan_entries(case, found, fewer), fewer, progress)


# ---------------------------------------------------------------- what is answered


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
    fewer: tuple[Fewer, ...],
    progress: Callable[[str], None],
) -> PlanAnswer:
    plain = plain_entry(case)
    entries = tuple(_label_plain(entry, plain) for entry in entries)
    whole = next((entry.estimate for entry in entries if entry.gpu_count == case.cluster.gpu_count), None)
    points = points_of(fewer, whole, case.cluster.gpu_count) if case.query.scaling and entries else ()
    workload = case.costs.parts.workload
    answer = PlanAnswer(
        model=workload.model,
        cluster=case.cluster,
        batch=case.wishes.global_batch,
        seq=workload.seq,
        precision=workload.precision,
        optimizer=workload.optimizer,
        method=case.query.step.tuning.title(workload.precision) if case.query.step.tuning else "",
        entries=entries,
        plain=plain,
        tried=len(found),
        fitting=int(found.fits.sum()),
        rejected=Counter(found.rejected),
        points=points,
        alone=_alone(case, fewer) if points else (),
        stops_at=None if case.cluster.is_mixed else stops_at(points),
        links=_links(case, found, whole.step_s) if whole else (),
        separate=None,
        smallest=None if entries else _smallest(case, progress),
        fixed=tuple(name for name, value in case.query.limits.fixed.items() if value is not False),
        least_bytes=0.0 if entries or not len(found) else _least_bytes(case, found),
        remedies=() if entries else remedies_of(case, progress),
        assumptions=(*case.notes, *_range_notes(entries, plain)),
        data_date=tables.data_date(),
    )
    return replace(answer, separate=_separate(answer))


def _least_bytes(case: PlanCase, found: Found) -> float:
    """What the plan that needs the least memory needs."""
    plan = found.plan(int(found.memory.argmin()), case.batches)
    return estimate(case.costs, case.cluster, plan, case.wishes.habits).memory.total_bytes


def _alone(case: PlanCase, fewer: Sequence[Fewer]) -> tuple[tuple[int, ScalePoint], ...]:
    """One GPU of each kind in a mixed cluster, with how many there are."""
    singles = single_gpus(fewer)
    return tuple((count, singles[gpu.name]) for gpu, count in case.cluster.kinds) if case.cluster.is_mixed else ()


def _links(case: PlanCase, found: Found, now_s: float) -> tuple[FasterLink, ...]:
    """What faster links would bring, compared with the fastest plan on all GPUs."""
    plans = [found.plan(int(row), case.batches) for row in found.order()[:_TRIED_ON_LINKS]]

    def step_on(cluster: Cluster) -> float:
        best = step_with(case.costs, cluster, plans, case.wishes)
        shared = share_by_speed(replace(case, cluster=cluster), found)
        return min(best, shared.estimate.step_s) if shared else best

    return faster_links(case.cluster, now_s, step_on)


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


def _separate(answer: PlanAnswer) -> SeparateJobs | None:
    """As many jobs as possible, each on the fewest GPUs that hold it, against one job on all."""
    whole = answer.on_all if answer.entries else None
    known = [point for point in answer.points[:-1] if point.weak is not None]
    if whole is None or not known:
        return None
    if answer.alone:
        able = [(count, point.weak) for count, point in answer.alone if point.weak is not None]
        jobs, rate, each = sum(count for count, _ in able), sum(count * one.samples / one.step_s for count, one in able), 1
        batch = able[0][1].samples if able else 0
    else:
        first, each = known[0].weak, known[0].gpu_count
        jobs = answer.cluster.gpu_count // each
        rate, batch = (jobs * first.samples / first.step_s, first.samples) if first else (0.0, 0)
    if not rate or jobs < _SEVERAL:
        return None
    return SeparateJobs(
        jobs=jobs, gpus_each=each, batch_each=batch, samples_per_s=rate, one_job_samples_per_s=whole.samples_per_s
    )


plan = face(PlanOptions, answer)
