"""Launches, waits and loading cost what they cost and no more: made runs with one known cause each.

Half of these runs are traps: something that looks like a cause happens while the device works, or before the steady steps.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from judging_causes import Case, examine
from making_hosts import Host, loop
from making_traces import HGEMM

TORCH = "/opt/conda/lib/python3.10/site-packages/torch"
Build = Callable[[bool], Host]
STEP = ("train.py(60): train_step",)


def small_kernels(cured: bool, *, thread: int | None = None, stack: bool = True, lookup: bool = False) -> Host:
    """100 kernels of 4 µs, each of which the host takes 25 µs to launch; cured, one graph launches them all."""

    def work(host: Host) -> None:
        if cured:
            host.graph([(HGEMM, 4.0)] * 100)
        else:
            if lookup:
                with host.cpu("TorchDynamo Cache Lookup"):
                    host.think(40.0)
            with host.blame():
                host.eager(100, 4.0, think_us=20.0)

    def body(host: Host, number: int) -> None:
        with host.frames(*STEP, f"{TORCH}/_tensor.py(525): backward", f"{TORCH}/autograd/graph.py(744): _engine_run_backward"):
            if thread is None:
                work(host)
            else:
                with host.elsewhere(thread):
                    work(host)

    return loop(body, host=Host(stack=stack))


def small_kernels_and_stall(stall_us: float) -> Build:
    """Both at once: 100 late launches and one long stall."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            with host.frames(*STEP):
                host.eager(100, 4.0, think_us=20.0)
                if not cured:
                    with host.blame(), host.frames("logger.py(9): log_metrics"):
                        host.think(stall_us)

        return loop(body)

    return build


def many_syncs(cured: bool, *, gap_us: float = 300.0, kernel_us: float = 100.0, count: int = 16) -> Host:
    """A value is read after every few kernels, and a little Python decides what is next."""

    def body(host: Host, number: int) -> None:
        for _ in range(count):
            host.eager(5, kernel_us)
            if not cured:
                host.item()
                with host.blame():
                    host.think(gap_us)

    return loop(body, frames=("train.py(210): <module>",))


def compiled_kernels(cured: bool) -> Host:
    """Kernels of Triton, which the driver launches itself."""

    def body(host: Host, number: int) -> None:
        if cured:
            host.graph([("triton_poi_fused_add_relu_0", 4.0)] * 100)
            return
        with host.blame():
            for _ in range(100):
                host.think(22.0)
                host.launch("triton_poi_fused_add_relu_0", 4.0, call_name="cuLaunchKernelEx")

    made = loop(body, host=Host(stack=False))
    for event in made.events:
        if event["name"] == "cuLaunchKernelEx":
            event["cat"] = "cuda_driver"
    return made


def counting(cured: bool) -> Host:
    """`nonzero` waits for a size each time, and its caller goes on after a little while."""

    def body(host: Host, number: int) -> None:
        for _ in range(16):
            host.eager(4, 90.0)
            if not cured:
                with host.cpu("aten::nonzero"):
                    host.launch("void at_cuda_detail::cub::DeviceSelectSweepKernel<bool>(int)", 8.0)
                    host.wait("cudaStreamSynchronize")
                with host.blame():
                    host.think(250.0)

    return loop(body)


def sync_while_busy(cured: bool) -> Host:
    """The host waits for an event in the middle of what it has launched: the device always has work."""

    def body(host: Host, number: int) -> None:
        host.eager(10)
        seen = host.until()
        host.eager(10)
        host.call("cudaEventSynchronize", max(seen - host.host_us, 2.0))

    return loop(body)


def sync_on_a_side_stream(cured: bool) -> Host:
    """A copy on a stream of its own is waited for; the kernels of the main stream go on."""

    def body(host: Host, number: int) -> None:
        host.eager(18)
        end = host.launch("void at::native::vectorized_elementwise_kernel<4, float>(int)", 300.0, stream=20)
        host.call("cudaStreamSynchronize", max(end - host.host_us, 2.0))
        host.eager(2)

    return loop(body)


def hidden_work(cured: bool) -> Host:
    """5 ms of Python a step while the device has 8 ms to do."""

    def body(host: Host, number: int) -> None:
        host.eager()
        with host.frames(*STEP, "image_processing.py(120): preprocess"):
            host.think(5000.0)

    return loop(body)


def half_hidden_work(cured: bool) -> Host:
    def body(host: Host, number: int) -> None:
        host.eager()
        if not cured:
            with host.blame(), host.frames(*STEP, "image_processing.py(120): preprocess"):
                host.think(14_000.0)

    return loop(body)


def hidden_by_a_copy(cured: bool) -> Host:
    """While the host prepares, the device copies on another stream: not idle."""

    def body(host: Host, number: int) -> None:
        host.eager()
        host._issue("gpu_memcpy", "Memcpy", "Memcpy DtoD (Device -> Device)", 14_500.0, "cudaMemcpyAsync", 22, 5.0, bytes=10**9)
        with host.frames(*STEP, "image_processing.py(120): preprocess"):
            host.think(14_000.0)

    return loop(body)


def full_queue(cured: bool) -> Host:
    """Launches take half a millisecond each because the queue is full."""
    return loop(lambda host, number: host.eager(40, 500.0, think_us=4.0), host=Host(ahead_us=2000.0))


def loaded(workers: bool, *, marked: bool = True) -> Build:
    """A loader that takes 30 ms, with the stack of what it does inside."""
    kind = "_MultiProcessingDataLoaderIter" if workers else "_SingleProcessDataLoaderIter"

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            if not cured:
                name = f"enumerate(DataLoader)#{kind}.__next__"
                inner = f"{TORCH}/utils/data/_utils/fetch.py(51): fetch"
                with host.blame(), host.frames(f"{TORCH}/utils/data/dataloader.py(631): __next__"):
                    if marked:
                        with host.note(name), host.frames(inner, "dataset.py(40): __getitem__"):
                            host.think(30_000.0)
                    else:
                        with host.frames(inner, "dataset.py(40): __getitem__"):
                            host.think(30_000.0)
            host.eager()

        return loop(body)

    return build


def clocks_apart(cured: bool) -> Host:
    """The clock of the device is 40 µs behind: kernels seem to begin before they were launched."""

    def body(host: Host, number: int) -> None:
        host.eager()
        if not cured:
            with host.blame(), host.frames(*STEP, "image_processing.py(120): preprocess"):
                host.think(30_000.0)

    return loop(body, host=Host(skew_us=-40.0))


def graphs_with_scheduler(cured: bool) -> Host:
    """Decoding by CUDA graphs; between them the scheduler takes 6 ms."""

    def body(host: Host, number: int) -> None:
        host.graph([(HGEMM, 60.0)] * 100)
        host.item()
        if not cured:
            with host.blame(), host.frames("scheduler.py(300): schedule"):
                host.think(6000.0)

    return loop(body, frames=("engine.py(20): run",))


WAITS = [
    Case(name="small kernels launched late", build=small_kernels, first=("launch_bound", "small_model"), absent=("host_work",)),
    Case(
        name="small kernels launched late by the thread of autograd",
        build=lambda cured: small_kernels(cured, thread=88),
        first=("launch_bound", "small_model"),
        absent=("host_work",),
    ),
    Case(
        name="small kernels without stacks",
        build=lambda cured: small_kernels(cured, stack=False),
        first=("launch_bound", "small_model"),
        absent=("host_work",),
    ),
    Case(
        name="short look-ups of compiled code are no compilation",
        build=lambda cured: small_kernels(cured, lookup=True),
        first=("launch_bound", "small_model"),
        absent=("compiling", "host_work"),
        lost=False,
    ),
    Case(
        name="late launches and a longer stall",
        build=small_kernels_and_stall(20_000.0),
        first=("host_work",),
        where=("log_metrics (logger.py:9)",),
    ),
    Case(
        name="late launches and a shorter stall",
        build=small_kernels_and_stall(500.0),
        first=("launch_bound", "small_model"),
        gain=False,
        lost=False,
    ),
    Case(name="a value read again and again", build=many_syncs, first=("host_sync",), absent=("host_work", "launch_bound")),
    Case(
        name="a value read once a step for less than 2 %",
        build=lambda cured: many_syncs(cured, count=1, gap_us=40.0, kernel_us=1000.0),
        absent=("host_sync",),
    ),
    Case(name="a size waited for again and again", build=counting, first=("host_sync",), absent=("host_work", "launch_bound")),
    Case(
        name="kernels launched late by the driver",
        build=compiled_kernels,
        first=("launch_bound", "small_model"),
        absent=("host_work",),
    ),
    Case(name="a wait while the device works", build=sync_while_busy, absent=("host_sync",)),
    Case(name="a wait for a side stream", build=sync_on_a_side_stream, absent=("host_sync",)),
    Case(name="Python hidden behind kernels", build=hidden_work, absent=("host_work",)),
    Case(
        name="Python half hidden behind kernels",
        build=half_hidden_work,
        first=("host_work",),
        where=("preprocess (image_processing.py:120)",),
    ),
    Case(name="Python hidden behind a copy", build=hidden_by_a_copy, first=None, absent=("host_work",)),
    Case(name="launches that block on a full queue", build=full_queue, absent=("host_work", "launch_bound")),
    Case(
        name="the clock of the device is behind",
        build=clocks_apart,
        first=("host_work",),
        where=("preprocess (image_processing.py:120)",),
    ),
    Case(name="a loader with workers", build=loaded(True), first=("input_starved",), absent=("host_work", "launch_bound")),
    Case(
        name="a loader without workers",
        build=loaded(False),
        first=("input_starved", "single_process_loader"),
        absent=("host_work", "launch_bound"),
    ),
    Case(
        name="a loader known by its functions alone",
        build=loaded(False, marked=False),
        first=("input_starved", "single_process_loader", "host_work"),
        absent=("launch_bound",),
    ),
    Case(
        name="CUDA graphs and a slow scheduler",
        build=graphs_with_scheduler,
        first=("host_work",),
        absent=("host_sync",),
        where=("schedule (scheduler.py:300)",),
    ),
]


@pytest.mark.parametrize("case", WAITS, ids=lambda case: case.name)
def test_waits_are_charged_for_what_they_cost(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)
