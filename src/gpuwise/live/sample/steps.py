"""Turns the marks of a process into steps: how long each took, and how long it waited for input. Independent of GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwise.live.hook.gpuwise_steps import RECORD

__all__ = ["Pace", "pace_of", "typical_pace"]

_DTYPE = np.dtype([("kind", "S1"), ("pad", "V7"), ("at", "<f8"), ("cpu", "<f8"), ("number", "<i8")])
_MOST_WARM_UP = 5
_BEST_PERCENT = 2.0  # of the steps are shorter than a step at its best; caches are cold and clocks low after most waits
_SEVERAL = 1.5  # optimizer steps per batch, above which a batch counts as the step

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The steady steps of one process. `work_low_s` is a step at its best without waiting; `wait_cpu_s` the CPU time of the
    process while it waited; `apart_fraction` the share of time in steps that begin a pass over the data, evaluate or save;
    `by` is optimizer or batches; `batch` and `workers` are None if unknown.
    """

    pid: int
    by: str
    count: int
    steady_count: int
    median_s: float
    mean_s: float
    low_s: float
    high_s: float
    wait_s: float
    wait_cpu_s: float
    cpu_s: float
    work_low_s: float
    batch: int | None
    workers: int | None
    apart_fraction: float

    @property
    def wait_fraction(self) -> float:
        """Waiting as a share of the mean step."""
        return self.wait_s / self.mean_s if self.mean_s > 0 else 0.0


def pace_of(pid: int, data: bytes) -> Pace | None:
    """Return the pace of one process, or None if it has too few marks."""
    marks = np.frombuffer(data[: len(data) // RECORD.size * RECORD.size], dtype=_DTYPE)
    at, kind = marks["at"], marks["kind"]
    ends, steps = _times(marks, b"E"), _times(marks, b"S")
    by = "optimizer" if len(steps) >= 2 and not len(steps) > _SEVERAL * len(ends) > 3 else "batches"
    bounds = steps if by == "optimizer" else ends
    if len(bounds) < 3:
        return None
    lengths = np.diff(bounds)
    waits, wait_cpu = _waits(marks, bounds)
    cpu = np.diff(np.interp(bounds, at, marks["cpu"]))
    passes = _holding(bounds, at[(kind == b"L") | ((kind == b"D") & (marks["number"] == 1))])
    windowed = _windowed(marks, bounds)
    steady = ~passes & ~windowed
    usual = np.flatnonzero(steady)
    usual = usual[min(_MOST_WARM_UP, len(usual) // 5) :]
    if not len(usual):
        usual = np.arange(len(lengths))
    work = lengths[usual] - waits[usual]
    counted = lengths[~windowed].sum()
    return Pace(
        pid=pid,
        by=by,
        count=len(lengths),
        steady_count=len(usual),
        median_s=float(np.median(lengths[usual])),
        mean_s=float(lengths[usual].mean()),
        low_s=float(np.percentile(lengths[usual], 10)),
        high_s=float(np.percentile(lengths[usual], 90)),
        wait_s=float(waits[usual].mean()),
        wait_cpu_s=float(wait_cpu[usual].mean()),
        cpu_s=float(cpu[usual].mean()),
        work_low_s=float(np.percentile(work, _BEST_PERCENT)),
        batch=_usual(marks["number"][kind == b"E"], least=1),
        workers=_workers(marks, ends),
        apart_fraction=float(lengths[passes & ~windowed].sum() / counted) if counted > 0 else 0.0,
    )


def typical_pace(marks: Mapping[int, bytes]) -> Pace | None:
    """Return the pace with the median step among the processes with the most steps."""
    found = [pace for pid, data in marks.items() if (pace := pace_of(pid, data)) is not None]
    most = max((pace.count for pace in found), default=0)
    steady = sorted((pace for pace in found if pace.count > most / 2), key=lambda pace: pace.median_s)
    return steady[len(steady) // 2] if steady else None


def _times(marks: Array, kind: bytes) -> Array:
    times: Array = marks["at"][marks["kind"] == kind]
    return times


def _waits(marks: Array, bounds: Array) -> tuple[Array, Array]:
    """Return the seconds waited in each step, and the process CPU seconds meanwhile. A wait belongs to its batch's step."""
    pairs = marks[np.isin(marks["kind"], (b"B", b"D", b"E"))]
    place = np.flatnonzero((pairs["kind"][:-1] == b"B") & (pairs["kind"][1:] == b"E"))
    begun, ended = pairs[place], pairs[place + 1]
    step = np.searchsorted(bounds, ended["at"], side="left") - 1
    inside = (step >= 0) & (step < len(bounds) - 1)
    waits, cpu = np.zeros(len(bounds) - 1), np.zeros(len(bounds) - 1)
    np.add.at(waits, step[inside], (ended["at"] - begun["at"])[inside])
    np.add.at(cpu, step[inside], (ended["cpu"] - begun["cpu"])[inside])
    return np.minimum(waits, np.diff(bounds)), cpu


def _holding(bounds: Array, times: Array) -> Array:
    """Return which steps contain one of these moments."""
    found = np.zeros(len(bounds) - 1, dtype=bool)
    step = np.searchsorted(bounds, times, side="left") - 1
    found[step[(step >= 0) & (step < len(found))]] = True
    return found


def _windowed(marks: Array, bounds: Array) -> Array:
    """Return which steps a profiler slowed down: those in its window, and the one in which it wrote its file."""
    opened, closed = _times(marks, b"P"), _times(marks, b"Q")
    found = np.zeros(len(bounds) - 1, dtype=bool)
    for begin in opened:
        after = closed[closed >= begin]
        end = after[0] if len(after) else np.inf
        found |= (bounds[1:] > begin) & (bounds[:-1] < end)
    return found


def _workers(marks: Array, ends: Array) -> int | None:
    """Return the workers of the loader that delivered the most batches."""
    passes = marks[marks["kind"] == b"L"]
    if not len(passes) or not len(ends):
        return None
    latest = np.searchsorted(passes["at"], ends, side="right") - 1
    numbers = passes["number"][latest[latest >= 0]]
    return _usual(numbers, least=0)


def _usual(numbers: Array, least: int) -> int | None:
    known = numbers[numbers >= least]
    return int(np.median(known)) if len(known) else None
