"""Synthetic runs that include the host: Python functions, nested ops, annotations, several threads, processes and GPUs.

`making_traces` writes what a device did and how it was called. Attributing a gap to its cause needs more: what the host did
throughout, and how the same run would have gone without it. A `Host` keeps both, so the expected result is computed from how the
run was made and never from its diagnosis. It has its own file because both together would exceed 400 lines.

Times are microseconds. The host runs ahead of a device by at most `ahead_us`; then a launch blocks until there is room again, as
in a real queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from making_traces import HGEMM, RELU, Run

Pairs = list[tuple[float, float]]
_LATENCY = 3.0
_NODE_GAP = 1.0
_MAIN = 77


@dataclass
class Host(Run):
    """A run with a host worth looking at. The truth about it: `steps` is where each step lies on the host, `finished` when all
    before and all in it is done on the devices too, `blamed` when the cause acted."""

    ahead_us: float = 8000.0
    device: int = 0
    process: int = 77
    thread: int = _MAIN
    skew_us: float = 0.0
    stack: bool = True
    hip: bool = False
    steps: Pairs = field(default_factory=list)
    finished: Pairs = field(default_factory=list)
    blamed: Pairs = field(default_factory=list)
    busy: dict[int, Pairs] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    _clocks: dict[int, float] = field(default_factory=dict)
    _frames: dict[int, list[int]] = field(default_factory=dict)
    _frame_count: int = 0

    def span(self, cat: str, name: str, start: float, duration: float, **args: Any) -> None:
        super().span(cat, name, start, duration, **args)
        event = self.events[-1]
        if "stream" in args:
            event["pid"], event["ts"] = self.device, event["ts"] + self.skew_us
        else:
            event["pid"], event["tid"] = self.process, self.thread

    def document(self, **extra: Any) -> dict[str, Any]:
        return super().document(**self.extra, **extra)

    @contextmanager
    def within(self, cat: str, name: str, **args: Any) -> Iterator[None]:
        """What the host does meanwhile happens inside of this."""
        begin = self.host_us
        self.span(cat, name, begin, 0.0, **args)
        event = self.events[-1]
        self.host_us += 0.1
        yield
        self.host_us += 0.1
        event["dur"] = self.host_us - begin

    @contextmanager
    def python(self, frame: str) -> Iterator[None]:
        """A Python function such as `train.py(120): preprocess`; not written without `stack`, as without with_stack=True."""
        if not self.stack:
            yield
            return
        self._frame_count += 1
        frames = self._frames.setdefault(self.thread, [])
        args = {"Python id": self._frame_count, "Python parent id": frames[-1] if frames else None, "Python thread": 0}
        frames.append(self._frame_count)
        with self.within("python_function", frame, **args):
            yield
        frames.pop()

    @contextmanager
    def frames(self, *names: str) -> Iterator[None]:
        """Python functions inside one another, the outermost first."""
        if not names:
            yield
            return
        with self.python(names[0]), self.frames(*names[1:]):
            yield

    @contextmanager
    def cpu(self, *names: str) -> Iterator[None]:
        """Ops inside one another, the outermost first."""
        if not names:
            yield
            return
        with (
            self.within(self.category("cpu_op", "Operator"), names[0], **{"External id": len(self.events)}),
            self.cpu(*names[1:]),
        ):
            yield

    @contextmanager
    def note(self, name: str) -> Iterator[None]:
        """An annotation of the user."""
        with self.within(self.category("user_annotation", "Operator"), name):
            yield

    @contextmanager
    def step(self, name: str = "") -> Iterator[None]:
        """A step, marked if it has a name."""
        begin, left = self.host_us, self.until()
        with self.note(name) if name else nullcontext():
            yield
        self.steps.append((begin, self.host_us))
        self.finished.append((max(begin, left), max(self.host_us, self.until())))

    @contextmanager
    def blame(self) -> Iterator[None]:
        """What the host does meanwhile is the cause."""
        begin = self.host_us
        yield
        self.blamed.append((begin, self.host_us))

    @contextmanager
    def elsewhere(self, thread: int, *, join: bool = True) -> Iterator[None]:
        """On another thread from now on; with `join`, this thread waits for it."""
        here, now = self.thread, self.host_us
        self.thread, self.host_us = thread, max(now, self._clocks.get(thread, 0.0))
        yield
        self._clocks[thread] = self.host_us
        self.thread, self.host_us = here, max(now, self.host_us) if join else now

    def until(self, device: int | None = None) -> float:
        """When a device (all of them by default) will have done what it was given."""
        return max((end for key, end in self.free_us.items() if device is None or key // 1000 == device), default=0.0)

    def _issue(
        self, new: str, old: str, name: str, duration: float, call_name: str, stream: int, call: float, **args: Any
    ) -> float:
        self.correlation += 1
        key = self.device * 1000 + stream
        after: float = args.pop("after", 0.0)
        blocked = self.until(self.device) - self.ahead_us - self.host_us
        call = max(call, blocked)
        start = max(self.host_us + call + _LATENCY, self.free_us.get(key, 0.0), after)
        called = call_name.replace("cuda", "hip", 1) if self.hip else call_name
        self.span(self.category("cuda_runtime", "Runtime"), called, self.host_us, call, correlation=self.correlation)
        self._place(self.category(new, old), name, start, duration, stream, **args)
        self.host_us += call
        return start + duration

    def _place(self, cat: str, name: str, start: float, duration: float, stream: int, **args: Any) -> None:
        args |= {"device": self.device, "stream": stream, "correlation": self.correlation}
        self.span(cat, name, start, duration, **args)
        self.free_us[self.device * 1000 + stream] = start + duration
        self.busy.setdefault(self.device, []).append((start, start + duration))

    def launch(
        self,
        name: str,
        duration: float,
        *,
        stream: int = 7,
        call: float = 5.0,
        blocks: float = 8.0,
        after: float = 0.0,
        call_name: str = "cudaLaunchKernel",
    ) -> float:
        """A kernel, not before `after`; returns when it ends."""
        return self._issue("kernel", "Kernel", name, duration, call_name, stream, call, after=after, **{"blocks per SM": blocks})

    def graph(self, kernels: Sequence[tuple[str, float]], *, stream: int = 7, call: float = 12.0) -> float:
        """A CUDA graph: one call, after which the device goes on by itself."""
        self.correlation += 1
        key = self.device * 1000 + stream
        call = max(call, self.until(self.device) - self.ahead_us - self.host_us)
        start = max(self.host_us + call + 2 * _LATENCY, self.free_us.get(key, 0.0))
        self.span(self.category("cuda_runtime", "Runtime"), "cudaGraphLaunch", self.host_us, call, correlation=self.correlation)
        for name, duration in kernels:
            self._place(self.category("kernel", "Kernel"), name, start, duration, stream, **{"blocks per SM": 8.0, "graph id": 3})
            start += duration + _NODE_GAP
        self.host_us += call
        return start - _NODE_GAP

    def eager(
        self, count: int = 20, kernel_us: float = 500.0, *, think_us: float = 10.0, name: str = HGEMM, stream: int = 7
    ) -> None:
        """Ops that launch a kernel each, as a forward or backward pass does."""
        for place in range(count):
            self.think(think_us / 2)
            with self.cpu("aten::linear", "aten::addmm") if place % 5 else self.cpu("aten::relu"):
                self.think(think_us / 2)
                self.launch(name if place % 5 else RELU, kernel_us, stream=stream)

    def item(self) -> None:
        """`.item()`: a copy of one value, and a wait until it is there."""
        with self.cpu("aten::item", "aten::_local_scalar_dense"):
            name = "Memcpy DtoH (Device -> Pageable)"
            self._issue("gpu_memcpy", "Memcpy", name, 1.5, "cudaMemcpyAsync", 7, 5.0, bytes=4)
            self.wait("cudaStreamSynchronize")

    def wait(self, name: str = "cudaDeviceSynchronize") -> None:
        """Wait for this device."""
        called = name.replace("cuda", "hip", 1) if self.hip else name
        self.call(called, max(self.until(self.device) + 1.0 - self.host_us, 2.0))


def loop(
    body: Callable[[Host, int], None],
    *,
    steps: int = 6,
    mark: str | Callable[[int], str] = "ProfilerStep#{}",
    lead_in: bool = True,
    host: Host | None = None,
    frames: Sequence[str] = ("train.py(210): <module>", "train.py(140): main"),
) -> Host:
    """A training loop. With `lead_in`, a step comes first that is not marked: recording does not begin with an empty queue."""
    host = host or Host()
    with host.frames(*frames):
        if lead_in:
            body(host, 0)
            host.blamed.clear()
        for number in range(1, steps + 1):
            with host.step(mark.format(number) if isinstance(mark, str) else mark(number)):
                body(host, number)
    return host


def joined(pairs: Pairs) -> Pairs:
    """The same times without overlaps."""
    found: Pairs = []
    for start, end in sorted(pairs):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        elif end > start:
            found.append((start, end))
    return found


def overlap(one: Pairs, other: Pairs) -> float:
    """How long both last at once."""
    total, left, right = 0.0, joined(one), joined(other)
    first = second = 0
    while first < len(left) and second < len(right):
        total += max(0.0, min(left[first][1], right[second][1]) - max(left[first][0], right[second][0]))
        if left[first][1] < right[second][1]:
            first += 1
        else:
            second += 1
    return total


def median_step_s(host: Host) -> float:
    """The true median step."""
    return median(end - start for start, end in host.steps) * 1e-6


def mean_step_s(host: Host, warm_up: int = 0) -> float:
    """The true mean step after the warm-up, until the last device is done: what a host saves counts once devices keep up."""
    kept = host.finished[warm_up:]
    return (kept[-1][1] - kept[0][0]) / len(kept) * 1e-6


def lost_s(host: Host, warm_up: int = 0) -> float:
    """Seconds a step in which the cause acts and the device is idle."""
    kept = host.steps[warm_up:]
    inside = [(max(start, kept[0][0]), min(end, kept[-1][1])) for start, end in host.blamed]
    inside = [(start, end) for start, end in joined(inside) if end > start]
    whole = sum(end - start for start, end in inside)
    return (whole - overlap(inside, host.busy.get(host.device, []))) / len(kept) * 1e-6


def busy_fraction(host: Host, device: int) -> float:
    """The true share of the steps in which a device works."""
    window = (host.steps[0][0], host.steps[-1][1])
    return overlap([window], host.busy.get(device, [])) / (window[1] - window[0])
