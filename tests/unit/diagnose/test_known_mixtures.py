"""Runs in which something unusual but harmless hides or imitates a cause. Each case judges the first verdict only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judging_causes import Case, Made, examine
from making_fleets import all_reduce, fleet, ranks
from making_hosts import Host, loop
from making_traces import ALL_REDUCE, HGEMM

ALL_GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SCAN = "void my_scan_kernel<float>(float*)"
FETCH = (
    "torch/utils/data/dataloader.py(630): __next__",
    "torch/utils/data/dataloader.py(1328): _next_data",
    "multiprocessing/queues.py(98): get",
)
LAUNCHES = ("launch_bound", "small_model")
Body = Callable[[Host, int], None]


def verdict(name: str, body: Body, *first: str, stack: bool = False, world: int | None = None, **options: Any) -> Case:
    """A case about the first verdict on a loop; without any code, the run is healthy."""

    def build(cured: bool) -> Made:
        return loop(body, host=Host(stack=stack, rank=None if world is None else 0, world_size=world), **options)

    return Case(name=name, build=build, first=first, gain=False, lost=False, steps=False)


def copied(host: Host, name: str, us: float) -> None:
    host._issue("gpu_memcpy", "Memcpy", name, us, "cudaMemcpyAsync", 7, 5.0, bytes=int(us * 12_000))


def two_streams(host: Host, number: int) -> None:
    for _ in range(20):
        host.think(5.0)
        host.launch(HGEMM, 500.0, stream=7)
        host.launch(HGEMM, 450.0, stream=13)


def stalled_graphs(host: Host, number: int) -> None:
    for _ in range(10):
        host.graph([(HGEMM, 200.0)] * 10)
    if number % 3 == 0:
        host.wait()
        with host.frames("train.py(80): evaluate_reward"):
            host.think(60_000.0)


def warmed_up(host: Host, number: int) -> None:
    if number == 1:
        host.call("cudaLaunchKernel", 400_000.0)
    host.eager(20 if number <= 2 else 40, 400.0, think_us=2000.0 if number <= 2 else 10.0)


def served_by_launches(host: Host, number: int) -> None:
    """A long prefill, then many tokens of short kernels."""
    host.eager(30, 900.0)
    for _ in range(30):
        for _ in range(40):
            host.think(25.0)
            host.launch(HGEMM, 12.0)
        host.item()


def served_by_graphs(host: Host, number: int) -> None:
    host.eager(30, 900.0)
    for _ in range(30):
        host.graph([(HGEMM, 80.0)] * 60)
        host.item()


def scheduled(host: Host, number: int) -> None:
    """A server of text that decides for long what to compute next."""
    with host.frames("engine/core.py(220): step", "core/sched/scheduler.py(150): schedule"):
        host.think(8000.0)
    host.graph([(HGEMM, 40.0)] * 100)
    host.item()


def uneven_micro_batches(host: Host, number: int) -> None:
    for place in range(4):
        host.eager(10, 300.0 * (1 + place % 3))


def checkpointed(host: Host, number: int) -> None:
    host.eager(20, 400.0)
    with host.elsewhere(88), host.cpu("autograd::engine::evaluate_function: CheckpointFunctionBackward"):
        host.eager(50, 430.0)


def evaluated_once(host: Host, number: int) -> None:
    host.eager(20, 500.0)
    if number == 4:
        with host.note("evaluate"):
            host.eager(100, 250.0)


def loaded_late_at_times(host: Host, number: int) -> None:
    host.load(80_000.0 if number % 10 == 5 else 150.0)
    host.eager(20, 500.0)


def loaded_late_once(host: Host, number: int) -> None:
    host.load(2_000_000.0 if number == 1 else 100.0)
    host.eager(20, 500.0)


def loaded_without_annotation(host: Host, number: int) -> None:
    with host.frames(*FETCH):
        host.think(25_000.0)
    host.eager(20, 500.0)


def metrics_by_value(host: Host, number: int) -> None:
    for _ in range(12):
        host.eager(4, 60.0, think_us=20.0)
        host.item()
        host.think(40.0)


def one_value(host: Host, number: int) -> None:
    host.eager(40, 800.0)
    host.item()
    host.think(100.0)


def gathered_late(host: Host, number: int) -> None:
    """Weights are gathered only when they are needed."""
    for _ in range(12):
        end = host.launch(ALL_GATHER, 600.0, stream=20, after=host.free_us.get(7, 0.0))
        host.launch(HGEMM, 500.0, after=end)


def reduced_meanwhile(host: Host, number: int) -> None:
    for _ in range(20):
        host.launch(HGEMM, 500.0)
        host.launch(ALL_REDUCE, 300.0, stream=20)


def connected_first(host: Host, number: int) -> None:
    """The first collective sets up the connections."""
    host.eager(20, 500.0)
    host.launch(ALL_REDUCE, 2_000_000.0 if number == 1 else 300.0, stream=20)
    if number == 1:
        host.wait()


def offloaded(host: Host, number: int) -> None:
    host.eager(20, 400.0)
    for _ in range(10):
        copied(host, "Memcpy DtoH (Device -> Pinned)", 1500.0)
        copied(host, "Memcpy HtoD (Pinned -> Device)", 1500.0)


def pinned_elsewhere(host: Host, number: int) -> None:
    with host.elsewhere(99, join=False):
        host.call("cudaHostAlloc", 3000.0)
        host.call("cudaEventSynchronize", 2000.0)
    host.eager(20, 500.0)


def written_in_time(host: Host, number: int) -> None:
    """The host pauses, but the queue of the GPU is long enough."""
    host.eager(40, 800.0)
    with host.frames("log.py(3): write"):
        host.think(5000.0)


def of_one_block(host: Host, number: int) -> None:
    """Long kernels that use one multiprocessor."""
    for _ in range(20):
        host.think(5.0)
        host.launch(SCAN, 1500.0, blocks=0.01)
    host.eager(5, 200.0)


def slow_third(cured: bool) -> Made:
    def body(hosts: list[Host], number: int) -> None:
        for place, host in enumerate(hosts):
            host.eager(20, 600.0 if place == 3 else 400.0)
        all_reduce(hosts, 400.0)

    return fleet(4, body, made=ranks(4, stack=False))


MIXTURES = [
    verdict("two streams overlap", two_streams),
    verdict("graphs and one long stall", stalled_graphs, "host_work", stack=True, steps=9),
    verdict("graphs and one long stall, no functions recorded", stalled_graphs, "host_work", steps=9),
    verdict("the first steps are warm-up", warmed_up, lead_in=False, steps=8),
    verdict("a server launches every kernel of a token", served_by_launches, *LAUNCHES, mark="", steps=5),
    verdict("a server replays graphs between prefills", served_by_graphs, mark="", steps=5),
    verdict("a server schedules for long", scheduled, "host_work", stack=True, mark="execute_model_{}", steps=12),
    verdict("a server schedules for long, no functions recorded", scheduled, "host_work", mark="", steps=12),
    verdict("micro-batches of different lengths", uneven_micro_batches),
    verdict("activations are computed again", checkpointed),
    verdict("an evaluation in one of eight steps", evaluated_once, steps=8),
    verdict("the loader is late in one of ten steps", loaded_late_at_times, "input_starved", steps=20),
    verdict("only the first batch is late", loaded_late_once, lead_in=False, steps=8),
    verdict("the loader is known by its function only", loaded_without_annotation, "input_starved", stack=True),
    verdict("metrics read values", metrics_by_value, "host_sync"),
    verdict("one value after a long step", one_value),
    verdict("weights are gathered late", gathered_late, "exposed_comm", world=8),
    verdict("gradients are reduced meanwhile", reduced_meanwhile, world=8),
    verdict("connections are set up in the first step", connected_first, world=8, lead_in=False, steps=8),
    verdict("activations are moved to the host and back", offloaded, "exposed_h2d", "pageable_copies"),
    verdict("another thread pins memory", pinned_elsewhere),
    verdict("a log line while the GPU has work", written_in_time, stack=True),
    verdict("kernels of one block", of_one_block, "small_grids"),
    Case(name="rank 3 is slow", build=slow_third, first=("straggler",), gain=False, lost=False, steps=False),
]


@pytest.mark.parametrize("case", MIXTURES, ids=lambda case: case.name)
def test_the_first_verdict_survives_what_distracts_from_it(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)
