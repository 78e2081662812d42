"""Different cards in one job: each gets samples in proportion to its speed, or all run at the pace of the slowest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuwise.scale.cluster.collectives import waits_fraction
from gpuwise.scale.cluster.shape import Cluster
from gpuwise.scale.plans.costs import Costs
from gpuwise.scale.plans.estimate import Passage, Variants, passage
from gpuwise.scale.plans.rank_memory import Holdings, holdings
from gpuwise.scale.plans.search import Wishes
from gpuwise.scale.plans.types import Estimate, Mesh, RankMemory
from gpuwise.scale.split.share import Degrees
from gpuwise.step.types import Array

__all__ = ["Shared", "proportional", "slowest"]

_ROUNDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Samples for a GPU of each kind, so that all finish at about the same time, the number of micro-batches, and the
    resulting step.
    """

    shares: tuple[int, ...]
    micro_counts: tuple[int, ...]
    estimate: Estimate


def slowest(kinds: Sequence[Costs]) -> int:
    """Return the GPU that takes the longest."""
    times = [costs.times(Degrees()) for costs in kinds]
    return int(
        np.argmax([(costs.counts @ (one.forward_s + one.backward_s))[-1] for costs, one in zip(kinds, times, strict=True)])
    )


def proportional(
    kinds: Sequence[tuple[Costs, int]], cluster: Cluster, wishes: Wishes, usable: Mapping[str, float], even: Estimate
) -> Shared | None:
    """Return the samples of each kind of GPU and the resulting step, compared with the `even` plan that only divides samples.
    None if the batch is too small to share, or a GPU cannot hold a single sample. `usable` is the memory available on a GPU
    of each name.
    """
    speeds = [_Speed(costs, cluster, wishes, usable[costs.gpu.name]) for costs, _ in kinds]
    if not all(speed.most for speed in speeds):
        return None
    counts = [count for _, count in kinds]
    shares = _shares(speeds, counts, wishes.global_batch)
    if shares is None:
        return None
    busy = [speed.seconds(share) for speed, share in zip(speeds, shares, strict=True)]
    last = int(np.argmax(busy))
    exposed = max(speed.at(share, speed.exposed) for speed, share in zip(speeds, shares, strict=True))
    step = (max(busy) + exposed) * (1.0 + waits_fraction(cluster.gpu_count))
    update = speeds[last].at(shares[last], speeds[last].update)
    compute = min(max(busy) - update, speeds[last].parts(shares[last]) * speeds[last].at(shares[last], speeds[last].compute))
    changed = replace(
        even,
        step_s=step,
        compute_s=compute,
        recompute_s=0.0,
        update_s=update,
        exposed_comm_s=exposed,
        wait_s=step - compute - update - exposed,
        memory=max((speed.memory(share) for speed, share in zip(speeds, shares, strict=True)), key=lambda one: one.total_bytes),
    )
    parts = tuple(speed.parts(share) for speed, share in zip(speeds, shares, strict=True))
    return Shared(shares=tuple(shares), micro_counts=parts, estimate=changed)


def _shares(speeds: Sequence[_Speed], counts: Sequence[int], batch: int) -> list[int] | None:
    """Return the samples that each kind finishes in the shortest time that is enough for the batch."""
    low, high = 0.0, max(speed.seconds(batch) for speed in speeds)
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        enough = sum(count * speed.within(middle, batch) for speed, count in zip(speeds, counts, strict=True)) >= batch
        low, high = (low, middle) if enough else (middle, high)
    shares = [speed.within(high, batch) for speed in speeds]
    surplus = sum(count * share for count, share in zip(counts, shares, strict=True)) - batch
    for place in np.argsort([-speed.seconds(share) for speed, share in zip(speeds, shares, strict=True)]).tolist():
        taken = min(shares[place], surplus // counts[place])
        shares[place] -= taken
        surplus -= taken * counts[place]
    return None if surplus or min(shares) < 1 else shares


class _Speed:
    """The time that a GPU of one kind takes for any number of samples, as one rank of data parallelism over the whole cluster."""

    def __init__(self, costs: Costs, cluster: Cluster, wishes: Wishes, usable_bytes: float) -> None:
        sizes, mesh = costs.sizes.batches, Mesh(data=cluster.gpu_count)
        none = np.zeros(len(sizes), dtype=np.int64)
        plans = Variants(
            point=np.arange(len(sizes)),
            micro_count=np.ones(len(sizes), dtype=np.int64),
            zero=none,
            recompute=none,
            offload=none.astype(bool),
        )
        found: Passage = passage(costs, cluster, mesh, plans, wishes.habits)
        self.exposed: Array = found.exposed_s
        self.compute: Array = found.compute_s
        self.update: Array = found.update_s
        self.busy: Array = found.step_s / (1.0 + waits_fraction(cluster.gpu_count)) - found.exposed_s
        self.sizes: Array = sizes
        self.held: Holdings = holdings(costs, mesh, found.stages, plans, wishes.schedule)
        self.most = int(max(sizes[self.held.total <= usable_bytes], default=0.0))

    def parts(self, samples: float) -> int:
        """Return the number of micro-batches for this many samples."""
        return max(1, int(np.ceil(samples / self.most)))

    def at(self, samples: float, column: Array) -> float:
        """Interpolate a column at the micro-batch size for this many samples."""
        return float(np.interp(samples / self.parts(samples), self.sizes, column))

    def memory(self, samples: float) -> RankMemory:
        """Return the GPU's memory at the next larger size that was predicted."""
        row = int(np.searchsorted(self.sizes, samples / self.parts(samples)))
        return self.held.of(min(row, len(self.sizes) - 1))

    def seconds(self, samples: float) -> float:
        """Return the seconds until the gradients of this many samples exist and the weights are updated, without messages."""
        return self.parts(samples) * self.at(samples, self.busy)

    def within(self, seconds: float, most: int) -> int:
        """Return the largest number of samples that a GPU finishes in this time."""
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.seconds(middle) <= seconds * (1 + 1e-9) else (low, middle - 1)
        return low
