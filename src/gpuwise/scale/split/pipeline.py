"""Pipeline stages: which blocks each one gets, how long it runs when full, and how long it takes to fill and drain.

The schedule is 1F1B (Narayanan et al. 2021) or GPipe (Huang et al. 2019). Both take the slowest stage once for every micro-batch
plus all other stages once; 1F1B holds fewer micro-batches at a time. With v chunks per stage, filling is v times shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from gpuwise.core.errors import BadValue
from gpuwise.step.types import Array
from gpuwise.workload.transform.parts import FIRST, Parts

__all__ = ["blocks_of_stages", "held", "stage_units"]


def blocks_of_stages(costs: Sequence[float], stages: int, first: float = 0.0, last: float = 0.0) -> tuple[int, ...]:
    """Return how many blocks each stage gets, in order, so that the slowest is as fast as possible. `first` and `last` are the
    times before and after the blocks.

    >>> blocks_of_stages([1.0] * 8, 4)
    (2, 2, 2, 2)
    >>> blocks_of_stages([1.0] * 8, 3, last=1.0)
    (3, 3, 2)
    """
    count = len(costs)
    if stages > max(count, 1):
        raise BadValue(
            f"{count} block{'' if count == 1 else 's'} cannot be divided into {stages} pipeline stages",
            hint="use fewer stages or chunks, because each of them needs its own block",
        )
    return (count,) if stages == 1 else _divided(tuple(costs), stages, first, last)


@lru_cache(maxsize=1024)  # plans that differ only in what they shard or hold have the same stages
def _divided(costs: tuple[float, ...], stages: int, first: float, last: float) -> tuple[int, ...]:
    count, weights = len(costs), np.array(costs, dtype=float)
    weights[0] += first
    weights[-1] += last
    if np.ptp(costs) == 0 and count % stages == 0 and (first + last) < weights.mean():
        return (count // stages,) * stages
    low, high = weights.max(), weights.sum()
    best = _greedy(weights, high, stages)
    for _ in range(40):
        middle = (low + high) / 2
        found = _greedy(weights, middle, stages)
        low, high, best = (middle, high, best) if found is None else (low, middle, found)
    return tuple(best or ())


def _greedy(weights: Array, limit: float, stages: int) -> list[int] | None:
    """Fill one stage after another up to a limit, leaving at least one block for each; None if blocks are left over."""
    sizes, total, count = [0], 0.0, len(weights)
    for number, weight in enumerate(weights.tolist()):
        stages_left = stages - len(sizes)
        full = sizes[-1] and (total + weight > limit * (1 + 1e-9) or count - number == stages_left)
        if full and stages_left:
            sizes.append(0)
            total = 0.0
        elif full and total + weight > limit * (1 + 1e-9):
            return None
        sizes[-1] += 1
        total += weight
    return sizes if len(sizes) == stages else None


def stage_units(parts: Parts, sizes: Sequence[int], chunks: int = 1) -> Array:
    """Return how often each unit runs in each stage, shape (stages, units), given the blocks in each chunk of each stage in
    order.
    """
    stages = len(sizes) // chunks
    found = np.zeros((stages, parts.units))
    start = 0
    for place, size in enumerate(sizes):
        np.add.at(found[place % stages], list(parts.kinds[start : start + size]), 1.0)
        start += size
    found[0, FIRST] += 1.0
    found[-1, parts.last] += 1.0
    return found


def held(stages: int, micro_count: Array, chunks: int, schedule: str) -> Array:
    """Return the micro-batches whose activations each stage holds at its peak, shape (stages, ...)."""
    counts = np.asarray(micro_count, dtype=float)
    if schedule == "gpipe":
        return np.asarray(np.broadcast_to(counts, (stages, *counts.shape)))
    ahead = np.arange(stages, 0, -1).reshape(-1, *(1,) * counts.ndim).astype(float)
    if chunks > 1:
        ahead = ahead + (stages - 1) / chunks  # Korthikanti et al. 2022, section 4
    return np.asarray(np.minimum(ahead, counts))
