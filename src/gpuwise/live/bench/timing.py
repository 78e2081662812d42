"""Times a function, repeating it until the result is stable or the time is up. Disturbances only add time, so the lower
quartile counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from statistics import quantiles
from typing import Any

__all__ = ["stable_seconds", "summary"]

_LEAST_RUNS = 5
_MOST_RUNS = 2000
_STABLE = 0.02
_LEAST_S = 200e-6  # of one timing; shorter work is repeated within it


def stable_seconds(
    work: Callable[[], Any],
    wait: Callable[[], Any],
    budget_s: float,
    clock: Callable[[], float] = time.perf_counter,
    *,
    most_s: float = math.inf,
) -> tuple[float, float, int]:
    """Return the seconds of one call, the half-width of its 95% interval as a fraction, and the number of timings. `wait` ends
    a timing.

    After `budget_s`, the minimum number of timings is enough; after `most_s`, two are.
    """

    def timed(calls: int) -> float:
        begun = clock()
        for _ in range(calls):
            work()
        wait()
        return (clock() - begun) / calls

    begun = time.perf_counter()
    timed(1)  # the first calls choose algorithms and fill caches
    alone = timed(1)
    calls = max(1, math.ceil(_LEAST_S / max(alone, 1e-9)))
    runs: list[float] = []
    while len(runs) < _MOST_RUNS:
        runs.append(timed(calls))
        spent = time.perf_counter() - begun
        if spent > most_s or (len(runs) >= _LEAST_RUNS and (spent > budget_s or summary(runs)[1] < _STABLE)):
            break
    runs = runs if len(runs) > 1 else [alone, *runs]
    return (*summary(runs), len(runs))


def summary(runs: Sequence[float]) -> tuple[float, float]:
    """Return the lower quartile and the half-width of its 95% interval, from the distance between the quartiles.

    >>> summary([1.0, 1.0, 1.0, 1.0, 3.0])
    (1.0, 0.0)
    """
    low, middle, _ = quantiles(runs, n=4, method="inclusive")
    width = 1.57 * 2 * (middle - low) / math.sqrt(len(runs))
    return low, width / low if low > 0 else 0.0
