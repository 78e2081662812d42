"""What the host does while the device is idle: which pauses are stalls rather than launch overhead, and what ran during them.

A host that keeps launching pauses for microseconds between two calls. A pause ten times as long as usual is a stall: the host
computes, compiles, waits for something else, or does something that was not recorded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuwise.diagnose.frames import LIBRARY, OWN, Frame, parse_frame
from gpuwise.diagnose.intervals import Spans, among, union
from gpuwise.diagnose.scene import Scene
from gpuwise.trace.types import Events, Kind, Mask, printable

__all__ = ["Cause", "after_waits", "causes", "compiling", "profiling", "stall_ns", "stalls"]

_LONG = 10  # times the usual pause
_USUAL_NS = 50_000  # more than a launch takes, even under a profiler; assumed
_LEAST_NS, _MOST_NS = 200_000, 1_000_000  # a stall is never shorter, and a longer pause is always one; assumed
_LEAST_ON_CPU_NS = 1_000_000  # other programs interrupt ops on a CPU for shorter times
_AFTER_WAIT_NS = 1_000_000  # a host that launches later than this after a wait does something else; assumed
_WAITS = 2  # times as long as the wait, at most, for a gap that it causes
_WHOLE = 0.98  # of a step: a mark of the step itself, which explains nothing
_FEWEST_STEPS = 3
_LOOP = 0.9  # of a step: a function that takes as long is the training loop
_COVERS = 0.5  # of a stall that an event must fill to explain it
_MOST_STALLS = 64  # the longest ones are enough to name what takes most of the time
_COMPILES_NS = 1_000_000
# Functions that compile, but not the functions in the same files that run compiled code.
_COMPILES = re.compile(
    r"^cuModuleLoad|^cuLibraryLoad|^hipModuleLoad|nvrtc|dynamo_timed|compile_inner|async_compile|benchmark_all_configs"
    r"|backend_compile|XlaCompile|torch/_dynamo/convert_frame\.py|triton/compiler/"
    r"|torch/_inductor/(?:compile_fx|codecache|async_compile)\.py\(\d+\): "
    r"(?!run$|__call__$|wrapper$|forward$|new_fn$|current_callable$)"
    r"|torch/utils/cpp_extension\.py\(\d+\): (?:load|_jit_compile|_write_ninja|_run_ninja)"
    r"|^Lazy Function Loading|^Runtime Triggered Module Loading"
)
_PROFILES = re.compile(r"^(?:Activity )?Buffer (?:Request|Flush)|^Instrumentation$|^CUPTI|^Resource$", re.IGNORECASE)  # by itself

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What the host did during some stalls. `where` is empty if nothing was recorded; `inside` is the library call below it."""

    kind: Kind | None
    where: str
    inside: str
    seconds: float


def stall_ns(scene: Scene) -> int:
    """Return the duration from which a pause of the host is a stall."""
    pauses = scene.pauses
    usual = float(np.median(pauses.end - pauses.start)) if len(pauses) else 0.0
    return int(np.clip(_LONG * min(usual, _USUAL_NS), _LEAST_ON_CPU_NS if scene.on_cpu else _LEAST_NS, _MOST_NS))


def stalls(scene: Scene) -> Spans:
    """Return when the host did not launch anything for long, or was inside one long call."""
    if not scene.on_cpu and not len(scene.launches):
        return _none()
    least = stall_ns(scene)
    pauses = scene.pauses
    long = pauses.end - pauses.start >= least
    if scene.on_cpu:  # other programs interrupt this one, so only recorded events count
        return _explained(scene, Spans(pauses.start[long], pauses.end[long]))
    starts, ends = [pauses.start[long]], [pauses.end[long]]
    kernels = ~scene.trace.named("memcpy", "memset")[scene.launches.name]  # a long copy waits for the device
    kernels &= among(scene.launches.correlation, scene.work.correlation)  # and other calls belong to another device
    for calls in (scene.launches.where(kernels), scene.sync):
        held = calls.duration_ns >= least
        starts.append(calls.start_ns[held])
        ends.append(calls.end_ns[held])
    return union(np.concatenate(starts), np.concatenate(ends))


def _explained(scene: Scene, pauses: Spans) -> Spans:
    """Return the pauses that something on the host fills, other than a mark by the framework, and those that occur in every
    step.
    """
    events = scene.trace.events
    held = events.where(_is_on_host(scene) & (events.duration_ns >= _COVERS * _LEAST_ON_CPU_NS))
    held = held.where(~scene.trace.named("optimizer.")[held.name])
    named = np.array(
        [
            bool((np.minimum(held.end_ns, end) - np.maximum(held.start_ns, begin) >= _COVERS * (end - begin)).any())
            for begin, end in zip(pauses.start.tolist(), pauses.end.tolist(), strict=True)
        ],
        dtype=bool,
    )
    kept = named | _is_regular(scene, pauses, ~named)
    return Spans(pauses.start[kept], pauses.end[kept])


def _is_regular(scene: Scene, pauses: Spans, chosen: Mask) -> Mask:
    """Return which of the chosen pauses occur in every steady step with about the same length."""
    lengths = np.where(chosen, pauses.end - pauses.start, 0)
    step = np.searchsorted(scene.steps.start_ns, pauses.start, side="right") - 1
    longest = np.zeros(len(scene.steps.start_ns), dtype=np.int64)
    np.maximum.at(longest, np.clip(step, 0, len(longest) - 1), lengths)
    steady = longest[scene.steps.steady]
    if len(steady) < _FEWEST_STEPS or steady.min() < _COVERS * steady.max():
        return np.zeros(len(pauses), dtype=bool)
    return np.asarray(lengths >= _COVERS * np.median(steady), dtype=bool)


def after_waits(scene: Scene) -> Spans:
    """Return the time from the end of each synchronising call to the next work: the queue was empty because the host waited.

    Without the wait, the host would have been that much earlier. A short wait therefore does not explain a much longer gap, and
    no wait explains a gap in which the host had something long to do.
    """
    waits = scene.waits
    sync = waits.where(waits.duration_ns > 0)
    if not len(sync) or not len(scene.work):
        return _none()
    starts = scene.work.start_ns
    place = np.searchsorted(starts, sync.end_ns, side="left")
    following = np.where(place < len(starts), starts[np.minimum(place, len(starts) - 1)], sync.end_ns)
    gap = following - sync.end_ns
    explained = _paid_for(gap.tolist(), sync.duration_ns.tolist(), int(scene.steps.median_s * 1e9))
    return union(np.maximum(sync.start_ns, sync.end_ns - stall_ns(scene)), sync.end_ns + explained)


def _paid_for(gaps: list[int], waits: list[int], most: int) -> Times:
    """Return how much of the gap after each wait the wait explains. A wait that is longer than the gap after it also explains
    later ones, up to the time by which the host would have been ahead without it, but never more than a step.
    """
    explained, ahead = np.zeros(len(gaps), dtype=np.int64), 0
    for place, (gap, wait) in enumerate(zip(gaps, waits, strict=True)):
        if gap <= min(_WAITS * wait + ahead, _AFTER_WAIT_NS):
            explained[place] = gap
            ahead = min(max(ahead + wait - gap, 0), most)
        else:
            ahead = 0
    return explained


def compiling(scene: Scene) -> Spans:
    """Return when a compiler ran or code was loaded onto the device."""
    events = scene.trace.events
    names = np.array([_COMPILES.search(name) is not None for name in scene.trace.names], dtype=bool)
    chosen = events.is_kind(Kind.PYTHON, Kind.MARK, Kind.OP, Kind.RUNTIME, Kind.OTHER) & (events.duration_ns >= _COMPILES_NS)
    chosen &= names[events.name]
    if len(scene.threads):  # overhead that the driver reports has no thread
        chosen &= np.isin(events.thread, scene.threads) | (events.kind == Kind.OTHER)
    rows = events.where(chosen)
    return union(rows.start_ns, rows.end_ns)


def profiling(scene: Scene) -> Spans:
    """Return when the profiler itself delayed the host, as it reports."""
    names = np.array([_PROFILES.search(name) is not None for name in scene.trace.names], dtype=bool)
    rows = scene.trace.events.of(Kind.OTHER)
    rows = rows.where(names[rows.name])
    return union(rows.start_ns, rows.end_ns)


def causes(scene: Scene, idle: Spans) -> tuple[Cause, ...]:
    """Return what the host did in these spans, the longest first; the longest spans represent all of them."""
    lengths = idle.end - idle.start
    chosen = np.argsort(-lengths, kind="stable")[:_MOST_STALLS]
    if not len(chosen):
        return ()
    events, held = scene.trace.events, _is_on_host(scene)
    long = events.where(held & (events.duration_ns >= _COVERS * lengths[chosen].min()))
    total: dict[tuple[Kind | None, str, str], int] = {}
    for row in chosen.tolist():
        begin, end = int(idle.start[row]), int(idle.end[row])
        key = _innermost(scene, long, begin, end) or _many_ops(scene, held, begin, end) or (None, "", "")
        total[key] = total.get(key, 0) + end - begin
    scale = 1e-9 * idle.total_ns / max(sum(total.values()), 1)
    found = [Cause(kind=kind, where=where, inside=inside, seconds=ns * scale) for (kind, where, inside), ns in total.items()]
    return tuple(sorted(found, key=lambda cause: -cause.seconds))


def _is_on_host(scene: Scene) -> Mask:
    """Which events were recorded on the threads that launch the work, without the marks of the steps themselves."""
    events = scene.trace.events
    begin, end = scene.steps.steady_window
    threads = np.unique((scene.work if scene.on_cpu else scene.driving).thread)
    marks = scene.trace.named("profilerstep")[events.name]
    kinds = events.is_kind(Kind.PYTHON, Kind.MARK, Kind.OP, Kind.RUNTIME)
    if len(threads):
        kinds &= np.isin(events.thread, np.union1d(threads, np.unique(events.thread[marks & kinds])))
    whole_step = (events.kind == Kind.MARK) & (events.duration_ns >= _WHOLE * scene.steps.median_s * 1e9)
    return np.asarray(kinds & ~marks & ~whole_step & (events.start_ns < end) & (events.end_ns > begin), dtype=bool)


def _innermost(scene: Scene, held: Events, begin: int, end: int) -> tuple[Kind | None, str, str] | None:
    """Return the shortest event that fills most of a stall, and the user's own function around it."""
    overlap = np.minimum(held.end_ns, end) - np.maximum(held.start_ns, begin)
    rows = np.flatnonzero(overlap >= _COVERS * (end - begin))
    if not len(rows):
        return None
    rows = rows[np.argsort(held.duration_ns[rows], kind="stable")]
    kinds, names = held.kind[rows], [scene.trace.names[number] for number in held.name[rows].tolist()]
    python = [place for place, kind in enumerate(kinds.tolist()) if kind == Kind.PYTHON]
    frames = [parse_frame(names[place]) for place in python]
    level = min((frame.level for frame in frames), default=LIBRARY)
    place = next((place for place, frame in enumerate(frames) if frame.level == level), 0)
    function = str(frames[place]) if frames else ""
    is_loop = bool(frames) and held.duration_ns[rows[python[place]]] >= _LOOP * scene.steps.median_s * 1e9  # around all steps
    if place and is_loop:
        function = f"{frames[place - 1]} in {function}"
    innermost = Kind(int(kinds[0]))
    if innermost in (Kind.OP, Kind.RUNTIME):
        around = f" in {function}" if function and level == OWN else ""
        return innermost, printable(names[0]) + around, ""
    if innermost == Kind.MARK and (level != OWN or is_loop):
        return innermost, printable(names[0]), ""
    leaf = frames[0] if frames else None
    return Kind.PYTHON, function, _below(leaf, function)


def _below(leaf: Frame | None, function: str) -> str:
    return "" if leaf is None or str(leaf) == function else str(leaf)


def _many_ops(scene: Scene, held: Mask, begin: int, end: int) -> tuple[Kind | None, str, str] | None:
    """Return the most frequent of many short ops that together fill most of a stall."""
    events = scene.trace.events
    near = np.arange(*np.searchsorted(events.start_ns, [2 * begin - end, end]))  # one that began earlier would fill all of it
    rows = events.where(near[held[near]]).of(Kind.OP, Kind.RUNTIME)
    rows = rows.where(rows.end_ns > begin)
    if union(rows.start_ns, rows.end_ns).within(begin, end).total_ns < _COVERS * (end - begin):
        return None
    names, place = np.unique(rows.name, return_inverse=True)
    most = int(np.bincount(place.reshape(-1), weights=rows.duration_ns).argmax())
    return Kind.OP, printable(scene.trace.names[int(names[most])]), ""


def _none() -> Spans:
    empty: Times = np.empty(0, dtype=np.int64)
    return Spans(empty, empty)
