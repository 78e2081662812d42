"""Plans on fewer GPUs than available: each smaller number of equal GPUs or, for mixed cards, each kind alone."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from gpuwise.questions.common.plan_case import PlanCase, part_of
from gpuwise.scale.cluster.shape import Cluster
from gpuwise.scale.plans.rules import AXES, Limits
from gpuwise.scale.plans.scaling import ScalePoint, counts_of, scale_points
from gpuwise.scale.plans.types import Estimate

__all__ = ["Fewer", "fewer_gpus", "points_of", "single_gpus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fewer:
    """The best plans on some of the GPUs, and the question for these GPUs alone."""

    case: PlanCase
    point: ScalePoint
    rate: float  # samples per second of the whole batch; 0 where nothing fits

    @property
    def cluster(self) -> Cluster:
        return self.case.cluster.of_count(self.point.gpu_count)


def fewer_gpus(case: PlanCase, executor: Executor | None) -> tuple[Fewer, ...]:
    """Return the best plans on fewer GPUs, or only on one if scaling was not requested. What the user fixed applies to the
    whole cluster; on fewer GPUs the search is free.
    """
    free = {name: value for name, value in case.query.limits.fixed.items() if name not in (*AXES, "micro_batch")}
    each = max(1, round(case.wishes.global_batch / case.cluster.gpu_count))
    alike = {(part.gpu.name, part.gpu_count): part for part in case.cluster.alike}
    found = []
    for part in [part_of(case, cluster) for cluster in alike.values()] or [case]:
        wishes = replace(part.wishes, limits=Limits(fixed=free))
        counts = counts_of(part.cluster) if case.query.scaling else (1,)
        smaller = [count for count in counts if count < case.cluster.gpu_count]
        for point in scale_points(part.costs, part.cluster, wishes, smaller, each=each, executor=executor):
            named = replace(point, gpu=part.cluster.gpu.name if case.cluster.is_mixed else "")
            found.append(Fewer(case=part, point=named, rate=_rate(point.strong)))
    return tuple(found)


def _rate(one: Estimate | None) -> float:
    return one.samples / one.step_s if one else 0.0


def single_gpus(fewer: Sequence[Fewer]) -> dict[str, ScalePoint]:
    """One GPU alone, by the name of its kind."""
    return {one.cluster.gpu.name: one.point for one in fewer if one.point.gpu_count == 1}


def points_of(fewer: Sequence[Fewer], whole: Estimate | None, gpu_count: int) -> tuple[ScalePoint, ...]:
    """Throughput by number of GPUs: the fastest of each number, and the best plan on all of them."""
    best: dict[int, Fewer] = {}
    for one in fewer:
        before = best.get(one.point.gpu_count)
        if before is None or one.rate > before.rate:
            best[one.point.gpu_count] = one
    last = ScalePoint(gpu_count=gpu_count, strong=whole, weak=whole)
    return (*(best[count].point for count in sorted(best)), last)
