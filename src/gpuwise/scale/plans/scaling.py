"""Do more GPUs help? Computes throughput by number of GPUs, for a fixed batch (strong scaling) and a growing one (weak
scaling).

It also finds where adding GPUs stops helping, which faster link would help, and the throughput of as many separate jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial

from gpuwise.hardware.types import Link
from gpuwise.scale.cluster.shape import Cluster
from gpuwise.scale.plans.costs import Costs
from gpuwise.scale.plans.search import Wishes, estimate, search
from gpuwise.scale.plans.types import Estimate, Plan

__all__ = [
    "FasterLink",
    "ScalePoint",
    "batch_of",
    "best_of",
    "counts_of",
    "faster_links",
    "scale_points",
    "step_with",
    "stops_at",
]

_FEW = 8
_WORTH = 0.5  # doubling the GPUs should give at least half of the possible gain
_RATES = (10e9, 25e9, 50e9, 100e9, 200e9, 400e9, 800e9, 1600e9)  # bit/s of networks on the market


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePoint:
    """The best plan on this many GPUs, or None if nothing fits. `strong` keeps the requested batch, however many GPUs share
    it; `weak` scales it in proportion. `gpu` is set if they are a subset of different GPUs.
    """

    gpu_count: int
    strong: Estimate | None
    weak: Estimate | None
    gpu: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FasterLink:
    """The step time with another link, under its best plan."""

    name: str
    step_s: float
    gain: float


def counts_of(cluster: Cluster) -> tuple[int, ...]:
    """Return the numbers of GPUs worth evaluating: all for a small machine, then nodes, doubling."""
    per_node, total = cluster.gpus_per_node, cluster.gpu_count
    inside = range(1, per_node + 1) if total <= _FEW else [1 << power for power in range(per_node.bit_length())]
    nodes = {1 << power for power in range(cluster.node_count.bit_length())} | {cluster.node_count}
    return tuple(sorted({count for count in inside if count <= per_node} | {per_node * count for count in nodes}))


def scale_points(
    costs: Costs, cluster: Cluster, wishes: Wishes, counts: Sequence[int], *, each: int, executor: Executor | None = None
) -> tuple[ScalePoint, ...]:
    """Return the best plan on each number of GPUs, with `each` samples per GPU if the batch grows; the counts are spread over
    an executor if one is given.
    """
    work = partial(_point, costs, cluster, wishes, each)
    return tuple(executor.map(work, counts) if executor is not None else map(work, counts))


def _point(costs: Costs, cluster: Cluster, wishes: Wishes, each: int, count: int) -> ScalePoint:
    part = cluster.of_count(count)
    strong = best_of(costs, part, wishes)
    weak = best_of(costs, part, replace(wishes, global_batch=each * count))
    return ScalePoint(gpu_count=count, strong=strong, weak=weak)


def batch_of(batch: int, count: int) -> int:
    """Return this batch, or the nearest that this many GPUs divide evenly."""
    return max(1, round(batch / count)) * count if batch % count else batch


def best_of(costs: Costs, cluster: Cluster, wishes: Wishes) -> Estimate | None:
    """Return the fastest plan that fits."""
    found = search(costs, cluster, wishes, replays=False)
    rows = found.may_fit(wishes.memory_bytes).tolist() if len(found) else []
    tried = (estimate(costs, cluster, found.plan(row, costs.sizes.batches), wishes.habits) for row in rows)
    return next((one for one in tried if one.memory.total_bytes <= wishes.memory_bytes), None)


def stops_at(points: Sequence[ScalePoint]) -> int | None:
    """Return the number of GPUs beyond which more GPUs give less than half of the possible gain at a fixed batch, or None if more
    still help.

    A number that does not divide the work evenly, such as 5 between 4 and 8, does not count as the end.
    """
    known = [(point.gpu_count, point.strong.samples / point.strong.step_s) for point in points if point.strong]
    for place, (count, rate) in enumerate(known[:-1]):
        if all(faster / rate - 1.0 < _WORTH * (more / count - 1.0) for more, faster in known[place + 1 :]):
            return count
    return None


def faster_links(cluster: Cluster, now_s: float, step_on: Callable[[Cluster], float]) -> tuple[FasterLink, ...]:
    """Return the next faster networks, and GPUs connected four times as fast, each with the step time on such a cluster."""
    found = []
    if cluster.network is not None and cluster.node_count > 1:
        bits = cluster.network.bytes_per_s_one_way * 8
        for rate in [rate for rate in _RATES if rate > bits * 1.2][:2]:
            network = replace(cluster.network, bytes_per_s_one_way=rate / 8)
            gigabit = f"{rate / 1e9:.0f} Gbit"
            name = f"{cluster.network_count} x {gigabit} networks" if cluster.network_count > 1 else f"a {gigabit} network"
            found.append((name, replace(cluster, network=network)))
    if cluster.gpus_per_node > 1:
        wires = replace(
            cluster.wires, gpu_link=_four_times(cluster.wires.gpu_link), host_link=_four_times(cluster.wires.host_link)
        )
        found.append((f"GPU-to-GPU links four times as fast as {cluster.wires.gpu_link.name}", replace(cluster, wires=wires)))
    steps = [(name, step_on(other)) for name, other in found]
    return tuple(FasterLink(name=name, step_s=step_s, gain=now_s / step_s) for name, step_s in steps)


def _four_times(link: Link) -> Link:
    return replace(link, bytes_per_s_one_way=4.0 * link.bytes_per_s_one_way)


def step_with(costs: Costs, cluster: Cluster, plans: Sequence[Plan], wishes: Wishes) -> float:
    """Return the step time of the best of these plans on a cluster with other links."""
    fresh = replace(costs, _sums={})  # sums over matrices are cached for the current links
    return min(estimate(fresh, cluster, plan, wishes.habits).step_s for plan in plans)
