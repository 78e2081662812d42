"""Different cards in one machine: each gets samples in proportion to its speed, or all go at the pace of the slowest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuwise.scale.plans.costs import Costs
from gpuwise.scale.split.share import Degrees
from gpuwise.step.types import Array

__all__ = ["proportional", "slowest"]

_ROUNDS = 60


def _seconds(costs: Costs) -> Array:
    """Seconds of a step on one GPU at each micro-batch, without messages."""
    times = costs.times(Degrees())
    found: Array = costs.counts @ (times.forward_s + times.backward_s)
    return found


def slowest(kinds: Sequence[Costs]) -> int:
    """Which of these GPUs takes longest."""
    return int(np.argmax([_seconds(costs)[-1] for costs in kinds]))


def proportional(kinds: Sequence[tuple[Costs, int]], batch: int) -> tuple[tuple[int, ...], float] | None:
    """Samples for a GPU of each kind, so that all finish at about the same time, and the seconds that takes; None where the batch
    is too small to share. There are so many GPUs of each kind."""
    low, high = 0.0, max(float(_line(costs, batch)) for costs, _ in kinds)
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        enough = sum(count * _within(costs, middle, batch) for costs, count in kinds) >= batch
        low, high = (low, middle) if enough else (middle, high)
    shares = [_within(costs, high, batch) for costs, _ in kinds]
    surplus = sum(count * share for (_, count), share in zip(kinds, shares, strict=True)) - batch
    for place in np.argsort([-_line(costs, share) for (costs, _), share in zip(kinds, shares, strict=True)]).tolist():
        taken = min(shares[place], surplus // kinds[place][1])
        shares[place] -= taken
        surplus -= taken * kinds[place][1]
    if surplus or min(shares) < 1:
        return None
    return tuple(shares), max(float(_line(costs, share)) for (costs, _), share in zip(kinds, shares, strict=True))


def _line(costs: Costs, samples: float) -> float:
    """Seconds of so many samples: between the sizes that were priced, and beyond them as the last two say."""
    sizes, seconds = costs.sizes.batches, _seconds(costs)
    if samples > sizes[-1]:
        return float(seconds[-1] * samples / sizes[-1])  # several micro-batches
    return float(np.interp(samples, sizes, seconds))


def _within(costs: Costs, seconds: float, most: int) -> int:
    """The most samples that a GPU finishes in this time."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _line(costs, middle) <= seconds * (1 + 1e-9) else (low, middle - 1)
    return low
