"""Divides a step into parts: every moment belongs to exactly one part, so the parts sum to the step.

What the device does comes first (compute before communication before copies); when it is idle, what the host does counts.
Communication that overlaps with compute is hidden: it is reported, but it is not a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from gpuwise.diagnose import host
from gpuwise.diagnose.classes import CLASSES
from gpuwise.diagnose.intervals import Spans, among, union
from gpuwise.diagnose.scene import Scene
from gpuwise.trace.types import Kind

__all__ = ["Breakdown", "Facts", "idle_spans", "launch_latency_ns", "measure", "take_apart"]

_USUAL_CALL_NS = 10_000  # a launch in PyTorch without a profiler; assumed
_COMPUTE = tuple(name for name in CLASSES if name != "communication")


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Seconds of a mean steady step by part, and what is hidden behind them. `idle` is when the device did nothing, and why."""

    step_s: float
    parts_s: dict[str, float]
    hidden_communication_s: float
    idle: Mapping[str, Spans]

    def share(self, *parts: str) -> float:
        """Parts as a share of the step."""
        return sum(self.parts_s.get(part, 0.0) for part in parts) / self.step_s if self.step_s > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Shares of a window by interval union, regardless of their cause.

    `span_busy_fraction` is relative to the time from the first to the last work on the device; `outside_fraction` is the share of
    the device's busy time outside the window: if it is large, the device runs behind the host.
    """

    window_s: float
    busy_fraction: float
    span_busy_fraction: float
    outside_fraction: float
    kernel_fraction: float
    copy_fraction: float
    loader_fraction: float
    loader_idle_fraction: float
    communication_fraction: float
    communication_exposed_fraction: float
    host_to_device_fraction: float
    sync_fraction: float
    allocation_fraction: float


def take_apart(scene: Scene) -> Breakdown:
    """Divide the mean steady step into parts."""
    begin, end = scene.steps.steady_window
    per_step = 1e-9 / max(scene.steps.steady_count, 1)
    parts: dict[str, float] = {}
    rest = union(np.array([begin]), np.array([end]))
    for name, spans in _device_parts(scene):
        parts[name] = rest.and_(spans).total_ns * per_step
        rest = rest.without(spans)
    idle = idle_spans(scene, rest)
    for name, spans in idle.items():
        parts[name] = spans.total_ns * per_step
    compute = scene.spans(scene.is_class(*_COMPUTE))
    hidden = scene.spans(scene.is_class("communication")).within(begin, end).and_(compute)
    return Breakdown(
        step_s=(end - begin) * per_step,
        parts_s=parts,
        hidden_communication_s=hidden.total_ns * per_step,
        idle=idle,
    )


def _device_parts(scene: Scene) -> Iterator[tuple[str, Spans]]:
    optimizer = (scene.in_optimizer & scene.kernels & ~scene.is_class("communication")) | scene.is_class("optimizer")
    for name in _COMPUTE:
        yield name, scene.spans(optimizer if name == "optimizer" else scene.is_class(name) & ~optimizer)
    yield "communication", scene.spans(scene.is_class("communication"))
    yield "copy", scene.spans((scene.work.kind == Kind.MEMCPY) | (scene.work.kind == Kind.MEMSET))


def idle_spans(scene: Scene, idle: Spans) -> dict[str, Spans]:
    """Return idle time by what the host does: it is delayed by the profiler, waits for input, compiles, allocates, waits for
    another GPU, has synchronised, does something long, has not launched yet, or none of these.

    Idle time inside a CUDA graph is separate, because profilers do not always record what runs inside one.
    """
    found: dict[str, Spans] = {}
    sources = {
        "profiler": host.profiling(scene),
        "input_wait": scene.loader,
        "compiling": host.compiling(scene),
        "allocation": union(scene.churn.start_ns, scene.churn.end_ns),
        "other_gpus": scene.others,
        "graph_wait": _inside_graphs(scene, idle),
        "synchronisation": host.after_waits(scene),
        "host_work": host.stalls(scene).and_(_until_launched(scene, idle)),
        "host_launch": _before_launch(scene, idle),
    }
    for name, spans in sources.items():
        found[name] = idle.and_(spans)
        idle = idle.without(spans)
    found["idle_unexplained"] = idle
    return found


def _before_launch(scene: Scene, idle: Spans) -> Spans:
    """Return the part of each gap before the work that ends it was launched and could start."""
    if scene.on_cpu:
        return idle
    if not len(idle) or not len(scene.work) or not (scene.launch_ns >= 0).any():
        return Spans(idle.start[:0], idle.end[:0])
    latency = launch_latency_ns(scene)
    place = np.searchsorted(scene.work.start_ns, idle.end, side="left")
    inside = place < len(scene.work)
    place = np.minimum(place, len(scene.work) - 1)
    launched, returned = scene.launch_ns[place], scene.launch_end_ns[place]
    could_start = np.maximum(launched + latency, np.where(returned <= idle.end, returned, 0))  # a slow call launches at its end
    ready = np.where(inside & (launched >= 0), could_start, idle.start)
    end = np.clip(ready, idle.start, idle.end)
    return union(idle.start, end)


def _until_launched(scene: Scene, idle: Spans) -> Spans:
    """Return the part of each gap before the work that ends it was launched, and gaps that no work ends."""
    if scene.on_cpu or not len(idle) or not len(scene.work):
        return idle
    place = np.searchsorted(scene.work.start_ns, idle.end, side="left")
    returned = scene.launch_end_ns[np.minimum(place, len(scene.work) - 1)]
    return union(idle.start, np.where(place < len(scene.work), np.clip(returned, idle.start, idle.end), idle.end))


def _inside_graphs(scene: Scene, idle: Spans) -> Spans:
    """The part of each gap after the graph was launched to which the next work belongs."""
    graphs = scene.trace.named("graphlaunch")[scene.launches.name]
    if not len(idle) or not len(scene.work) or not graphs.any():
        return Spans(idle.start[:0], idle.end[:0])
    place = np.searchsorted(scene.work.start_ns, idle.end, side="left")
    following = scene.work.correlation[np.minimum(place, len(scene.work) - 1)]
    of_graph = among(following, scene.launches.correlation[graphs]) & (place < len(scene.work))
    launched = scene.launch_end_ns[np.minimum(place, len(scene.work) - 1)]
    return union(np.maximum(idle.start, launched)[of_graph], idle.end[of_graph])


def launch_latency_ns(scene: Scene) -> int:
    """Return the time between a launch and the start of its kernel on a free device: the tenth percentile of all waits. What a
    call takes beyond the usual is not latency, because the host could be quicker.
    """
    known = (scene.launch_ns >= 0) & scene.kernels
    slow = np.maximum(scene.launch_end_ns - scene.launch_ns - _USUAL_CALL_NS, 0)
    waits = (scene.work.start_ns - scene.launch_ns - np.where(scene.launch_end_ns <= scene.work.start_ns, slow, 0))[known]
    waits = waits[waits > 0]
    return int(np.clip(np.percentile(waits, 10), 1_000, 50_000)) if len(waits) else 5_000


def measure(scene: Scene, window: tuple[int, int]) -> Facts:
    """The shares of a window."""
    begin, end = window
    length = max(end - begin, 1)

    def share(spans: Spans) -> float:
        return spans.within(begin, end).total_ns / length

    work = scene.work
    busy = scene.busy
    communication = scene.spans(scene.is_class("communication"))
    other = scene.spans(scene.kernels & ~scene.is_class("communication"))
    to_device = (work.kind == Kind.MEMCPY) & scene.named("htod", "host -> device", "h2d")
    return Facts(
        window_s=length * 1e-9,
        busy_fraction=share(busy),
        span_busy_fraction=busy.total_ns / max(int(busy.end[-1] - busy.start[0]), 1) if len(busy) else 0.0,
        outside_fraction=1.0 - busy.within(begin, end).total_ns / max(busy.total_ns, 1),
        kernel_fraction=share(scene.spans(scene.kernels)),
        copy_fraction=share(scene.spans(work.kind == Kind.MEMCPY)),
        loader_fraction=share(scene.loader),
        loader_idle_fraction=share(scene.loader.without(busy)),
        communication_fraction=share(communication),
        communication_exposed_fraction=share(communication.without(other)),
        host_to_device_fraction=share(scene.spans(to_device)),
        sync_fraction=share(union(scene.sync.start_ns, scene.sync.end_ns)),
        allocation_fraction=share(union(scene.allocations.start_ns, scene.allocations.end_ns)),
    )
