"""Recordings that mislead: without steps or hosts, idle for a reason that is no fault of the host, or hardly wrong at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from judging_causes import Case, examine
from making_hosts import Host, loop
from making_traces import ALL_REDUCE, HGEMM, RELU

OF_HOSTS = ("launch_bound", "host_sync", "host_work", "input_starved", "compiling")


def only_kernels(cured: bool) -> Host:
    """Kernels and nothing else, with 20 ms between steps."""

    def body(host: Host, number: int) -> None:
        host.launch("void at::native::embedding_dense_kernel<float>(int)", 40.0)
        host.eager(20)
        if not cured:
            host.think(30_000.0)

    made = loop(body, mark="", steps=7, lead_in=False)
    made.events = [event for event in made.events if event["cat"] == "kernel"]
    return made


def unmarked(call: str, us: float, *, launches: bool = False) -> Host:
    """One forward pass without marks: a first kernel, a long call, and everything else."""
    host = Host(stack=False)
    host.launch(RELU, 10.0)
    with host.blame():
        if launches:
            host.launch(RELU, 10.0, call=us)
        else:
            host.call(call, us)
    host.eager(60, 300.0)
    host.steps.append((0.0, host.until()))
    return host


def benchmarked(cured: bool) -> Host:
    """Each step is timed: the host waits for the device and reads a clock."""

    def body(host: Host, number: int) -> None:
        host.eager(20, 600.0)
        host.wait()
        with host.frames("bench.py(20): record"):
            host.think(60.0)

    return loop(body)


def two_halves(cured: bool) -> Host:
    """A model on two GPUs: one half of it waits for the other, and the host has launched both long before."""

    def body(host: Host, number: int) -> None:
        for device in (0, 1):
            host.device = device
            done = host.until()
            for _ in range(10):
                host.think(10.0)
                done = host.launch(HGEMM, 400.0, after=done)
        host.device = 0

    host = Host(ahead_us=20_000.0, stack=False)
    host.extra = {"deviceProperties": [host.gpu, host.gpu | {"id": 1}]}
    return loop(body, host=host, steps=8)


def streams_joined(cured: bool) -> Host:
    """A stream waits for another one again and again; the host is far ahead."""

    def body(host: Host, number: int) -> None:
        for _ in range(10):
            done = host.launch(HGEMM, 500.0, stream=7)
            done = host.launch(RELU, 300.0, stream=13, after=done + 6.0)
            host.launch(HGEMM, 200.0, stream=7, after=done + 6.0)

    return loop(body)


def on_the_cpu(cured: bool) -> Host:
    """The optimizer runs on the host, as it does where its states do not fit."""

    def body(host: Host, number: int) -> None:
        host.eager()
        if not cured:
            host.wait("cudaStreamSynchronize")
            with (
                host.blame(),
                host.note("Optimizer.step#DeepSpeedCPUAdam.step"),
                host.frames("deepspeed/ops/adam/cpu_adam.py(150): step", "<built-in method adam_update of PyCapsule object>"),
            ):
                host.think(60_000.0)

    return loop(body)


def new_epoch(cured: bool) -> Host:
    """An epoch ends: workers are started again, once in eight steps."""

    def body(host: Host, number: int) -> None:
        host.eager()
        if number == 4 and not cured:
            frames = ("torch/utils/data/dataloader.py(442): __iter__", "torch/utils/data/dataloader.py(1020): __init__")
            with host.blame(), host.frames(*frames, "multiprocessing/popen_fork.py(66): _launch"):
                host.think(400_000.0)

    return loop(body, steps=8)


def first_exchange(cured: bool) -> Host:
    """The first exchange takes three seconds, because other ranks are still starting."""

    def body(host: Host, number: int) -> None:
        host.eager(16, 600.0)
        host.free_us[7] = host.launch(ALL_REDUCE, 3_000_000.0 if number == 1 else 300.0, stream=20, after=host.until())
        host.wait("cudaEventSynchronize")

    return loop(body, lead_in=False, steps=7, host=Host(rank=0, world_size=8))


def cut_short(cured: bool) -> Host:
    """The recording ends within a step whose host was in Python: that step does not count."""

    def body(host: Host, number: int) -> None:
        host.eager(4 if number == 7 else 20, 600.0)
        host.wait("cudaEventSynchronize")

    return loop(body, steps=7)


TRAPS = [
    Case(
        name="only kernels",
        build=only_kernels,
        first=None,
        absent=("launch_bound", "host_sync", "input_starved"),
        step_counts=(6, 7),
    ),
    Case(
        name="a long first cudaFree and no steps",
        build=lambda cured: unmarked("cudaFree", 6_000_000.0),
        first=("allocator_churn", "host_work"),
        absent=("launch_bound", "host_sync"),
        gain=False,
        steps=False,
    ),
    Case(
        name="a long launch and no steps",
        build=lambda cured: unmarked("", 629_000.0, launches=True),
        first=("host_work",),
        absent=("launch_bound", "host_sync"),
        where=("cudaLaunchKernel",),
        gain=False,
        steps=False,
    ),
    Case(
        name="modules loaded and no steps",
        build=lambda cured: unmarked("cuModuleLoadDataEx", 800_000.0),
        first=("compiling",),
        absent=("launch_bound", "host_sync"),
        gain=False,
        steps=False,
    ),
    Case(name="a benchmark that waits in each step", build=benchmarked, absent=OF_HOSTS),
    Case(name="a model on two GPUs", build=two_halves, first=None, absent=OF_HOSTS),
    Case(name="streams that wait for each other", build=streams_joined, absent=OF_HOSTS),
    Case(
        name="an optimizer on the host",
        build=on_the_cpu,
        first=("host_work",),
        absent=("host_sync", "launch_bound"),
        where=("cpu_adam", "Optimizer.step", "main (train.py:140)"),
    ),
    Case(
        name="workers started again",
        build=new_epoch,
        first=("input_starved", "single_process_loader", "host_work"),
        absent=("launch_bound", "host_sync"),
    ),
    Case(name="a long first exchange", build=first_exchange, absent=("exposed_comm", *OF_HOSTS), warm_up=1),
    Case(name="a last step cut short", build=cut_short, absent=OF_HOSTS, steps=False),
]


@pytest.mark.parametrize("case", TRAPS, ids=lambda case: case.name)
def test_a_recording_that_misleads_is_understood(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)
