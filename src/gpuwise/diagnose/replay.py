"""Replays the recorded run with different durations, to find what a step would take without one cause.

The replay keeps these dependencies: the host issues launches, waits and loads in the recorded order; a kernel starts when it is
launched, its stream is free, and the work it waited for on another stream has ended; a synchronising call returns when the work
it waited for has ended. Any delay that none of these explains stays as recorded, so a replay without changes reproduces the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuwise.diagnose.host import stall_ns
from gpuwise.diagnose.intervals import Spans
from gpuwise.diagnose.parts import launch_latency_ns
from gpuwise.diagnose.scene import Scene
from gpuwise.trace.types import Kind, Mask

__all__ = ["Change", "Recording", "record"]

_MOST_WORK = 16_000
_QUEUE = 1024  # launches that fit in the queue of a CUDA stream before the host blocks
_JOIN_NS = 15_000
_ON_HOST = ("profiler", "marks", "loader", "optimizer")  # marks of steps on the clock of the host
_LAUNCH, _SYNC, _LOAD, _ALLOCATE, _END = range(5)

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What differs from the recorded run: factors on time, 1.0 for unchanged, 0.0 for removed."""

    loading: float = 1.0
    allocating: float = 1.0
    host: float = 1.0
    stalling: float = 1.0
    waiting: bool = True
    blocking_copies: bool = True
    work: npt.NDArray[np.float64] | None = None


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The steady steps as a list of what the host did, with the work that each launch started."""

    step_count: int
    begin_ns: int
    rows: npt.NDArray[np.intp]
    kind: list[int]
    think_ns: list[int]
    cost_ns: list[int]
    target: list[int]
    blocks: list[bool]
    reads: list[bool]
    duration_ns: npt.NDArray[np.int64]
    stream: list[int]
    lag_ns: list[int]
    depends: list[int]
    after_call: list[bool]
    latency_ns: int
    stall_ns: int
    recorded_s: float
    free_ns: dict[int, int]

    def factors(self, chosen: Mask, factor: float) -> npt.NDArray[np.float64]:
        """Return factors on the durations of work: `factor` where a mask over the scene's work selects it, 1 elsewhere."""
        return np.where(chosen[self.rows], factor, 1.0)

    def seconds(self, change: Change) -> float:
        """Return a mean step with a change."""
        durations = self.duration_ns if change.work is None else (self.duration_ns * change.work).astype(np.int64)
        return self._play(change, durations.tolist()) * 1e-9 / self.step_count

    def gain(self, change: Change) -> float:
        """Return how many times as fast a step would be."""
        return max(self.unchanged_s / max(self.seconds(change), 1e-12), 1.0)

    @cached_property
    def unchanged_s(self) -> float:
        """A mean step as recorded, replayed like all others."""
        return self.seconds(Change())

    def _play(self, change: Change, durations: list[int]) -> int:
        clock = 0
        ends = [0] * len(durations)
        starts = [0] * len(durations)
        free = dict(self.free_ns)
        latency, waiting, blocking = self.latency_ns, change.waiting, change.blocking_copies
        thinking, costs = self._host_times(change)
        for kind, think, cost, target, blocks in zip(self.kind, thinking, costs, self.target, self.blocks, strict=True):
            clock += think
            if kind == _LAUNCH:
                if target >= _QUEUE and clock < starts[target - _QUEUE]:
                    clock = starts[target - _QUEUE]
                stream = self.stream[target]
                start = clock + (cost if cost > latency and self.after_call[target] else latency)
                if (idle_from := free.get(stream, 0)) > start:
                    start = idle_from
                dependency = self.depends[target]
                if dependency >= 0 and start < ends[dependency]:
                    start = ends[dependency]
                start += self.lag_ns[target]
                starts[target] = start
                ends[target] = free[stream] = start + durations[target]
                clock += cost
                if blocks and blocking and (waiting or not self.reads[target]) and clock < ends[target]:
                    clock = ends[target]
            else:
                clock += cost
                if kind == _SYNC and target >= 0 and waiting and clock < ends[target]:
                    clock = ends[target]
        return max(clock, max(ends, default=0))

    def _host_times(self, change: Change) -> tuple[list[int], list[int]]:
        """Return how long the host pauses before each of its calls, and how long each call takes, with a change."""
        kind, think, cost = (np.array(values, dtype=np.int64) for values in (self.kind, self.think_ns, self.cost_ns))
        factors = np.array([1.0, 1.0, change.loading, change.allocating, change.allocating])[kind]
        factors = np.where(kind == _LAUNCH, np.where(cost < self.stall_ns, change.host, change.stalling), factors)
        pauses = think * np.where(think < self.stall_ns, change.host, change.stalling)
        return pauses.astype(np.int64).tolist(), (cost * factors).astype(np.int64).tolist()


def record(scene: Scene) -> Recording | None:
    """Return the steady steps of a scene as a recording, or None if launches and work cannot be matched."""
    begin, end, count = _stretch(scene)
    chosen = (scene.work.start_ns >= begin) & (scene.work.start_ns < end) & (scene.launch_ns >= 0)
    chosen &= scene.launch_ns >= begin
    rows = np.flatnonzero(chosen)
    if len(rows) < 2 or chosen.sum() < 0.5 * ((scene.work.start_ns >= begin) & (scene.work.start_ns < end)).sum():
        return None
    rows = rows[np.argsort(scene.launch_ns[rows], kind="stable")]
    work = scene.work.where(rows)
    latency = 0 if scene.on_cpu else launch_latency_ns(scene)
    actions = _actions(scene, rows, begin, end)
    returned = scene.launch_end_ns[rows]
    after_call = (returned <= work.start_ns) & (not scene.on_cpu)
    ready = np.maximum(scene.launch_ns[rows] + latency, np.where(after_call, returned, 0))
    depends, lag = _ties(work.start_ns, work.end_ns, work.stream, ready)
    return Recording(
        step_count=count,
        begin_ns=begin,
        rows=rows,
        duration_ns=work.duration_ns,
        stream=work.stream.tolist(),
        reads=(scene.named("dtoh", "device -> pageable", "device -> host", "d2h") | scene.serial)[rows].tolist(),
        lag_ns=lag.tolist(),
        depends=depends.tolist(),
        after_call=after_call.tolist(),
        latency_ns=latency,
        stall_ns=stall_ns(scene),
        recorded_s=(end - begin) * 1e-9 / count,
        free_ns=_running_before(scene, begin),
        **actions,
    )


def _running_before(scene: Scene, begin: int) -> dict[int, int]:
    """For each stream, when the work launched before the first step leaves it free, relative to the first step."""
    before = (scene.launch_ns < begin) & (scene.launch_ns >= 0) & (scene.work.end_ns > begin)
    found: dict[int, int] = {}
    for stream, end in zip(scene.work.stream[before].tolist(), scene.work.end_ns[before].tolist(), strict=True):
        found[stream] = max(found.get(stream, 0), end - begin)
    return found


def _stretch(scene: Scene) -> tuple[int, int, int]:
    """Return consecutive steady steps, as many as can be replayed in reasonable time."""
    starts, ends = scene.steps.start_ns[scene.steps.steady], scene.steps.end_ns[scene.steps.steady]
    per_step = len(scene.work) / max(len(scene.steps.start_ns), 1)
    count = int(np.clip(_MOST_WORK / max(per_step, 1), 1, len(starts)))
    first = (len(starts) - count) // 2
    return int(starts[first]), int(ends[first + count - 1]), count


def _actions(scene: Scene, rows: npt.NDArray[np.intp], begin: int, end: int) -> dict[str, Any]:
    """Return what the host did, in order of time (launches, waits, loads and allocations), and the delay before each."""
    launched, returned = scene.launch_ns[rows], scene.launch_end_ns[rows]
    sync = scene.sync.where((scene.sync.start_ns >= begin) & (scene.sync.end_ns <= end))
    load = scene.loader.within(begin, end)
    allocate = scene.allocations.where((scene.allocations.start_ns >= begin) & (scene.allocations.end_ns <= end))
    last = [end] if scene.steps.by in _ON_HOST and not scene.on_cpu else []  # what the host does after its last call
    start = np.concatenate([launched, sync.start_ns, load.start, allocate.start_ns, last]).astype(np.int64)
    stop = np.concatenate([returned, sync.end_ns, load.end, allocate.end_ns, last]).astype(np.int64)
    kind = np.repeat([_LAUNCH, _SYNC, _LOAD, _ALLOCATE, _END], [len(rows), len(sync), len(load), len(allocate), len(last)])
    awaited = _awaited(scene, rows, sync.start_ns, sync.end_ns)
    target = np.concatenate([np.arange(len(rows)), awaited, np.full(len(load) + len(allocate) + len(last), -1)])
    blocks = np.concatenate([_blocking(scene, rows), np.zeros(len(start) - len(rows), dtype=bool)])
    order = np.argsort(start, kind="stable")
    start, stop, kind, target, blocks = start[order], stop[order], kind[order], target[order], blocks[order]
    reach = np.maximum.accumulate(np.concatenate([[begin], stop[:-1]]))
    think = np.maximum(start - reach, 0)
    cost = np.maximum(stop - np.maximum(start, reach), 0)
    waits = ((kind == _SYNC) & (target >= 0)) | blocks
    plain = cost[(kind == _LAUNCH) & ~blocks]
    usual = int(np.median(plain)) if len(plain) else 0
    longest = 20 * max(usual, 5_000)
    cost = np.where(waits, np.minimum(cost, max(usual, 2_000)), cost)
    idle = scene.busy.gaps(begin, end)
    held = (kind == _LAUNCH) & ~waits & ~_is_inside(idle, start, stop)  # a launch that waits for a free place in the queue
    cost = np.where(held, np.minimum(cost, longest), cost)
    if scene.on_cpu:  # the host is the device: a launch is the work itself
        cost = np.where(kind == _LAUNCH, 0, cost)
        blocks = kind == _LAUNCH
    return {
        "kind": kind.tolist(),
        "think_ns": think.tolist(),
        "cost_ns": cost.tolist(),
        "target": target.tolist(),
        "blocks": blocks.tolist(),
    }


def _is_inside(spans: Spans, start: Times, stop: Times) -> Mask:
    """Return which calls lie in these spans for at least half of their time."""
    if not len(spans):
        return np.zeros(len(start), dtype=bool)
    edges = np.concatenate([[0], np.cumsum(spans.end - spans.start)])

    def covered(times: Times) -> Times:
        place = np.searchsorted(spans.start, times, side="right")
        within = np.minimum(times, spans.end[np.maximum(place - 1, 0)]) - spans.start[np.maximum(place - 1, 0)]
        return np.where(place > 0, edges[np.maximum(place - 1, 0)] + within, 0)

    return np.asarray(covered(stop) - covered(start) >= 0.5 * (stop - start), dtype=bool)


def _blocking(scene: Scene, rows: npt.NDArray[np.intp]) -> Mask:
    """Return copies whose call returned only when the copy had ended, and kernels if their launches block."""
    copies = (scene.work.kind == Kind.MEMCPY) & scene.waited_for
    return np.asarray((copies | scene.serial)[rows], dtype=bool)


def _awaited(scene: Scene, rows: npt.NDArray[np.intp], start: Times, end: Times) -> npt.NDArray[np.int64]:
    """For each wait, return the last work that was launched before it and had ended when it returned."""
    launched, ended = scene.launch_ns[rows], scene.work.end_ns[rows]
    found = np.full(len(start), -1, dtype=np.int64)
    for place, (begin, stop) in enumerate(zip(start, end, strict=True)):
        last = int(np.searchsorted(launched, begin))
        candidates = ended[max(last - 4 * _QUEUE, 0) : last]
        done = np.flatnonzero(candidates <= stop)
        if len(done):
            found[place] = max(last - 4 * _QUEUE, 0) + done[np.argmax(candidates[done])]
    return found


def _ties(start: Times, end: Times, stream: Times, launched: Times) -> tuple[Times, Times]:
    """For each piece of work in launch order, return the work on another stream that it waited for (or -1) and the unexplained
    delay since its launch took effect.
    """
    previous = np.full(len(start), np.iinfo(np.int64).min // 2, dtype=np.int64)
    for number in np.unique(stream):
        rows = np.flatnonzero(stream == number)
        previous[rows[1:]] = end[rows[:-1]]
    ready = np.maximum(launched, previous)
    lag = np.maximum(start - ready, 0)
    depends = np.full(len(start), -1, dtype=np.int64)
    order = np.argsort(end, kind="stable")
    sorted_end = end[order]
    late = np.flatnonzero(lag > 2_000)
    places = np.searchsorted(sorted_end, start[late], side="right") - 1
    near = (places >= 0) & (start[late] - sorted_end[np.maximum(places, 0)] < _JOIN_NS)
    for row, other in zip(late[near].tolist(), order[places[near]].tolist(), strict=True):
        if stream[other] != stream[row] and other < row:
            depends[row] = other
            lag[row] = max(int(start[row]) - max(int(ready[row]), int(end[other])), 0)
    return depends, lag
