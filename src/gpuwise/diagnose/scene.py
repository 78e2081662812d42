"""Prepares a trace for analysis: the selected device, what ran on it, which calls launched it, and what the host waited for."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gpuwise.diagnose import classes, cpu_work
from gpuwise.diagnose.intervals import Spans, among, union
from gpuwise.diagnose.steps import LOADER, OPTIMIZER, Steps, find_steps, only_whole
from gpuwise.trace.types import Device, Events, Kind, Mask, Trace

__all__ = ["Scene", "make_scene", "with_whole_steps"]

_SYNC = re.compile(
    r"^(cuda|hip)(Device|Stream|Event)Synchronize|^cu(Ctx|Stream|Event)Synchronize|^(cuda|hip)Memcpy$"
    r"|^ur(QueueFinish|EventWait)$|^ze(EventHost|FenceHost|CommandListHost|CommandQueue)Synchronize$",  # Intel: UR, Level Zero
    re.IGNORECASE,
)
_ALLOCATE = re.compile(
    r"^(cuda|hip)(Malloc|Free|HostAlloc|HostFree|ExtMalloc)(?!.*Async)|^cuMem(Alloc|Free|Create|Map)(?!.*Async)"
)
_NEXT_BATCH = re.compile(r"torch[/\\]utils[/\\]data[/\\]dataloader\.py\(\d+\): __next__$")
_LAUNCH = re.compile(r"launch|memcpy|memset", re.IGNORECASE)
_TRAINING = ("backward", "optimizer.step#", "gradient", "_bwd", "dgrad", "wgrad")
_DRIVES = 0.1  # of the launches
_AT_ONCE, _FAIR_PART, _IN_TURN = 0.25, 0.1, 0.5  # of the work of a GPU, of another one, and of the recording; assumed
_ROUNDING_NS = 2_000
_LONG_KERNEL_NS = 20_000  # shorter kernels may end before their launch returns without blocking it; assumed
_MOSTLY = 0.5
_LONG_CALL_NS = 20_000_000  # an allocation that takes this long sets something up

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Everything the checks look at. `work` is in order of start; the parallel arrays have one entry per row. `others` is when
    other GPUs of the same program work, if it uses them in turn.
    """

    trace: Trace
    device: Device
    on_cpu: bool
    steps: Steps
    work: Events
    launch_ns: Times
    launch_end_ns: Times
    class_id: npt.NDArray[np.int8]
    unit_id: npt.NDArray[np.int8]
    in_optimizer: Mask
    loader: Spans
    sync: Events
    allocations: Events
    launches: Events
    threads: npt.NDArray[np.int32]
    others: Spans

    @cached_property
    def busy(self) -> Spans:
        """When anything ran on the device, including copies."""
        return union(self.work.start_ns, self.work.end_ns)

    def spans(self, chosen: Mask) -> Spans:
        """When the chosen work ran."""
        return union(self.work.start_ns[chosen], self.work.end_ns[chosen])

    def is_class(self, *names: str) -> Mask:
        """The kernels of these classes."""
        wanted = [classes.CLASSES.index(name) for name in names]
        return np.isin(self.class_id, wanted) & self.kernels

    def is_unit(self, *names: str) -> Mask:
        """The matmul, convolution and attention kernels that ran on these units."""
        return np.isin(self.unit_id, [classes.UNITS.index(name) for name in names]) & self.kernels

    def named(self, *parts: str) -> Mask:
        """The work whose name contains one of these."""
        return self.trace.named(*parts)[self.work.name]

    @cached_property
    def driving(self) -> Events:
        """The launches of the threads that drive the device."""
        return _of_threads(self.launches, self.threads)

    @cached_property
    def waited_for(self) -> Mask:
        """The work whose own launch returns only when it is done."""
        return (self.launch_ns >= 0) & (self.launch_end_ns >= self.work.end_ns - _ROUNDING_NS)

    @cached_property
    def serial(self) -> Mask:
        """The kernels whose launches block, if most launches do: a debugging mode of the driver."""
        long = self.kernels & (self.launch_ns >= 0) & (self.work.duration_ns >= _LONG_KERNEL_NS)
        blocked = long & self.waited_for
        return blocked if not self.on_cpu and blocked.sum() > _MOSTLY * long.sum() else np.zeros_like(blocked)

    @cached_property
    def waits(self) -> Events:
        """Calls that return when the device is done: those that synchronise, copies to the host that block, and all launches
        if they block.
        """
        copies = (self.work.kind == Kind.MEMCPY) & self.named("dtoh", "device -> pageable", "device -> host", "d2h")
        awaited = (copies & self.waited_for) | self.serial
        blocked = self.driving.where(among(self.driving.correlation, self.work.correlation[awaited]))
        return cpu_work.joined(self.sync, blocked) if len(blocked) else self.sync

    @cached_property
    def churn(self) -> Events:
        """The allocations, excluding long ones that are rarer than one in four steps: a first call sets up the driver."""
        long = self.allocations.duration_ns >= _LONG_CALL_NS
        return self.allocations.where(~long) if long.sum() <= max(1, self.steps.steady_count // 4) else self.allocations

    @cached_property
    def pauses(self) -> Spans:
        """The time between one call that advances the run (a launch, a wait, an allocation, a batch) and the next."""
        begin, end = self.steps.steady_window
        if self.on_cpu:
            return union(self.work.start_ns, self.work.end_ns).gaps(begin, end)
        calls = (self.driving, self.sync, self.churn)
        start = np.concatenate([*(rows.start_ns for rows in calls), self.loader.start])
        stop = np.concatenate([*(rows.end_ns for rows in calls), self.loader.end])
        return union(start, np.maximum(stop, start + 1)).gaps(begin, end)

    @cached_property
    def trains(self) -> bool:
        """Whether anything belongs to a backward pass or an optimizer, judging by names."""
        return bool(self.trace.named(*_TRAINING)[self.trace.events.name].any())

    @cached_property
    def kernels(self) -> Mask:
        return np.asarray(self.work.kind == Kind.KERNEL, dtype=bool)

    @cached_property
    def steady(self) -> Mask:
        """The work that begins within the steady steps."""
        begin, end = self.steps.steady_window
        return (self.work.start_ns >= begin) & (self.work.start_ns < end)

    @cached_property
    def step_s(self) -> float:
        """The mean steady step, of which parts and losses are shares."""
        begin, end = self.steps.steady_window
        return (end - begin) * 1e-9 / max(self.steps.steady_count, 1)


def make_scene(trace: Trace, index: int | None = None, alone: bool = False) -> Scene:
    """Collect what belongs to one device, by default the one with the most kernel time; without any, the host's ops are the
    work. `alone` if no other device is driven by the same process.
    """
    work = trace.events.of(Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
    work = work.where(work.duration_ns >= 0)
    others = union(work.start_ns[:0], work.end_ns[:0])
    on_cpu = not (work.kind == Kind.KERNEL).any()
    if on_cpu:
        computing = cpu_work.computing_ops(trace)
        on_cpu = bool(len(computing)) or not len(work)  # copies alone count as the GPU's work only if the host computes nothing
    if on_cpu:
        work, device = computing, Device(index=-1, name="CPU")
    else:
        index = _busiest(work) if index is None else index
        others = others if alone else _in_turn(work, index)
        work, device = work.where(work.device == index), trace.device(index)
    runtime = trace.events.of(Kind.RUNTIME)
    if len(work) and not on_cpu and (runtime.process >= 0).any():
        runtime = _of_owner(runtime, work)
    launches = _matching(trace, _LAUNCH, runtime)
    launch, launch_end = _launch_times(work, launches, on_cpu)
    marks, loading = trace.marked(*OPTIMIZER), _loading(trace)
    threads = _driving(trace, work, launches)
    loading = _of_threads(loading, threads)
    called = np.where(launch >= 0, launch, work.start_ns if on_cpu else -1)
    return Scene(
        trace=trace,
        device=device,
        on_cpu=on_cpu,
        steps=find_steps(trace, work),
        work=work,
        launch_ns=launch,
        launch_end_ns=launch_end,
        class_id=classes.class_ids(trace.names, work.name),
        unit_id=classes.unit_ids(trace.names, work.name),
        in_optimizer=_inside(called, union(marks.start_ns, marks.end_ns)),
        loader=union(loading.start_ns, loading.end_ns),
        sync=_of_threads(_matching(trace, _SYNC, runtime), threads),
        allocations=_of_threads(_matching(trace, _ALLOCATE, runtime), threads),
        launches=launches,
        threads=threads,
        others=others,
    )


def _loading(trace: Trace) -> Events:
    """Return the waits for batches: annotations by the loader or, without any, the Python function that returns a batch."""
    annotated = trace.marked(*LOADER)
    if len(annotated):
        return annotated
    return _matching(trace, _NEXT_BATCH, trace.events.of(Kind.PYTHON))


def with_whole_steps(scene: Scene) -> Scene | None:
    """Return the scene of a truncated file with only the steps known to be complete, or None if there are none."""
    if scene.trace.cut is None or not scene.trace.cut.ragged:
        return scene
    called = scene.launch_ns[scene.launch_ns >= 0]
    steps = only_whole(scene.steps, called if len(called) else scene.work.start_ns)
    return None if steps is None else replace(scene, steps=steps)


def _driving(trace: Trace, work: Events, launches: Events) -> npt.NDArray[np.int32]:
    """Return the threads that launch the device's work, or mark its steps; none if the trace does not record them. Other
    threads, such as those that pin memory or prefetch batches, do not delay it.
    """
    own = launches.where(among(launches.correlation, work.correlation[work.correlation >= 0])) if len(work) else launches
    if not len(own):
        return np.empty(0, dtype=np.int32)
    threads, counts = np.unique(own.thread, return_counts=True)
    marks = trace.marked("profilerstep", *OPTIMIZER)
    return np.union1d(threads[counts >= _DRIVES * counts.sum()], np.unique(marks.thread)).astype(np.int32)


def _of_threads(rows: Events, threads: npt.NDArray[np.int32]) -> Events:
    return rows.where(np.isin(rows.thread, threads)) if len(threads) and len(rows) else rows


def _in_turn(work: Events, index: int) -> Spans:
    """Return when other GPUs work, if mostly one of them works at a time, as when each holds some of the layers."""
    mine = work.device == index
    other = union(work.start_ns[~mine], work.end_ns[~mine])
    own = union(work.start_ns[mine], work.end_ns[mine]) if len(other) else other
    if not len(own):
        return other
    both, either = own.and_(other).total_ns, union(work.start_ns, work.end_ns)
    alone = both < _AT_ONCE * min(own.total_ns, other.total_ns) and other.total_ns >= _FAIR_PART * own.total_ns
    filled = either.total_ns >= _IN_TURN * (int(either.end[-1]) - int(either.start[0]))
    return other if alone and filled else Spans(other.start[:0], other.end[:0])


def _busiest(work: Events) -> int:
    kernels = work.where(work.kind == Kind.KERNEL)
    chosen = kernels if len(kernels) else work
    devices, place = np.unique(chosen.device, return_inverse=True)
    return int(devices[np.bincount(place, weights=chosen.duration_ns).argmax()])


def _of_owner(runtime: Events, work: Events) -> Events:
    """Return the calls of the process that launched this device's work, if several processes share a file."""
    if len(np.unique(runtime.process)) < 2:
        return runtime
    owners = np.unique(runtime.process[among(runtime.correlation, work.correlation[work.correlation >= 0])])
    return runtime.where(np.isin(runtime.process, owners)) if len(owners) else runtime


def _matching(trace: Trace, pattern: re.Pattern[str], rows: Events) -> Events:
    fits = np.array([pattern.search(name) is not None for name in trace.names], dtype=bool)
    return rows.where(fits[rows.name]) if len(rows) else rows


def _launch_times(work: Events, launches: Events, on_cpu: bool) -> tuple[Times, Times]:
    """Return when the call that launched each piece of work began and ended; -1 if the trace does not record it."""
    if on_cpu:
        return work.start_ns.copy(), work.end_ns.copy()
    start, end = np.full(len(work), -1, dtype=np.int64), np.full(len(work), -1, dtype=np.int64)
    known = launches.where(launches.correlation >= 0)
    if len(known) and len(work):
        order = np.argsort(known.correlation, kind="stable")
        ids = known.correlation[order]
        place = np.minimum(np.searchsorted(ids, work.correlation), len(ids) - 1)
        hit = (ids[place] == work.correlation) & (work.correlation >= 0)
        start[hit], end[hit] = known.start_ns[order][place[hit]], known.end_ns[order][place[hit]]
    return start, end


def _inside(times: Times, spans: Spans) -> Mask:
    if not len(spans):
        return np.zeros(len(times), dtype=bool)
    place = np.searchsorted(spans.start, times, side="right") - 1
    return (place >= 0) & (times < spans.end[np.maximum(place, 0)]) & (times >= 0)
