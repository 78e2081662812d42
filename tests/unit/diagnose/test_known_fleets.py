"""Trainings that are spread over several GPUs: what an expert would say first about each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from test_known_situations import H100, TO_HOST, bare, brought, made

from judging_causes import Case, examine
from making_fleets import all_reduce, fleet, in_one_file, on_own_devices, ranks
from making_hosts import Host
from making_traces import ALL_REDUCE

GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SCATTER = "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
EXCHANGE = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
ADAM = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>(int)"
PINNED_DEVICE = "Memcpy HtoD (Pinned -> Device)"


def h100(stack: bool = False) -> Host:
    return Host(gpu=dict(H100), stack=stack)


def rank_of(world: int, stack: bool = False) -> Callable[[], Host]:
    return lambda: Host(rank=1, world_size=world, stack=stack)


def optimizer(host: Host, us: float = 800.0) -> None:
    with host.note("Optimizer.step#AdamW.step"):
        for _ in range(4):
            host.think(8.0)
            host.launch(ADAM, us / 4)


# Sharded trainings.


def gathered_ahead(host: Host, number: int, cured: bool) -> None:
    """FSDP2: each layer's weights come while the layer before it computes."""
    for _ in range(12):
        host.launch(GATHER, 900.0, stream=25)
        host.eager(4, 400.0)
    for _ in range(12):
        host.launch(SCATTER, 900.0, stream=26)
        host.eager(6, 400.0)
    optimizer(host)


def gathered_late(host: Host, number: int, cured: bool) -> None:
    """FSDP without prefetching: each layer waits for its weights."""
    for _ in range(16):
        if not cured:
            ready = host.launch(GATHER, 900.0, stream=25, after=host.free_us.get(7, 0.0))
            host.free_us[7] = ready
        host.eager(4, 400.0)
    optimizer(host)


def optimizer_on_the_host(host: Host, number: int, cured: bool) -> None:
    """Weights and moments stay on the host, where the optimizer updates them."""
    host.eager(24, 400.0)
    brought(host, TO_HOST, 300.0, 6_000_000)
    if not cured:
        with host.blame(), host.note("Optimizer.step#AdamW.step"), host.cpu("aten::_fused_adamw_"):
            host.think(25_000.0)


def accumulated(host: Host, number: int, cured: bool) -> None:
    """Four micro-batches, of which only the last sums gradients, behind its own backward pass."""
    for place in range(4):
        host.eager(10, 400.0)
        for _ in range(3):
            if place == 3:
                host.launch(ALL_REDUCE, 500.0, stream=25)
            host.eager(3, 400.0)
    optimizer(host)


def bubbles(host: Host, number: int, cured: bool) -> None:
    """A stage of a pipeline: micro-batches with waits for the stages beside it."""
    for place in range(8):
        if not cured and place < 3:
            host.free_us[7] = host.launch(EXCHANGE, 2500.0, stream=25, after=host.free_us.get(7, 0.0))
        host.eager(6, 350.0)
    optimizer(host)


def summed_layers(host: Host, number: int, cured: bool) -> None:
    """Tensor parallelism over a slow link: a sum behind each half of a layer."""
    for _ in range(24):
        host.eager(3, 150.0)
        if not cured:
            host.free_us[7] = host.launch(ALL_REDUCE, 250.0, stream=25, after=host.free_us.get(7, 0.0))


def tables(host: Host, number: int, cured: bool) -> None:
    """A recommender: rows of embedding tables are exchanged before the dense layers, and the next batch is copied meanwhile."""
    host._issue("gpu_memcpy", "Memcpy", PINNED_DEVICE, 1500.0, "cudaMemcpyAsync", 30, 5.0, bytes=30_000_000)
    with host.note("## wait_sparse_data_dist ##"):
        host.think(40.0)
    if not cured:
        host.free_us[7] = host.launch(EXCHANGE, 3000.0, stream=25, after=host.free_us.get(7, 0.0))
    host.eager(12, 400.0)
    optimizer(host)


# Several GPUs.


def late(hosts: list[Host], number: int, cured: bool) -> None:
    for host in hosts:
        if host.rank == 2 and not cured:
            with host.frames("train.py(33): augment"):
                host.think(15_000.0)
        host.eager(20, 400.0)
    all_reduce(hosts, 300.0)


def idle_half(hosts: list[Host], number: int, cured: bool) -> None:
    """Two GPUs of a process that exchange nothing; the second has a third as much to do."""
    for host in hosts:
        host.eager(24 if cured or host.rank == 0 else 8, 400.0)
    end = max(host.until() for host in hosts)
    for host in hosts:
        host.host_us = max(host.host_us, end)


def eager_exchange(hosts: list[Host], number: int, cured: bool) -> None:
    for host in hosts:
        host.eager(20, 400.0)
    if not cured:
        all_reduce(hosts, 4000.0)


CASES: Sequence[Case] = [
    Case(name="weights gathered ahead", build=made(gathered_ahead, rank_of(8))),
    Case(name="weights gathered without prefetching", build=made(gathered_late, rank_of(8)), first=("exposed_comm",)),
    Case(
        name="moments on the host",
        build=made(optimizer_on_the_host, rank_of(8, stack=True)),
        first=("host_work",),
        where=("_fused_adamw_", "Optimizer.step"),
    ),
    Case(name="micro-batches without sums", build=made(accumulated, rank_of(4))),
    Case(name="a stage that waits for others", build=made(bubbles, rank_of(4)), first=("exposed_comm",)),
    Case(name="sums in each layer over a slow link", build=made(summed_layers, rank_of(2)), first=("exposed_comm",)),
    Case(name="rows exchanged before the dense layers", build=made(tables, rank_of(16)), first=("exposed_comm",)),
    Case(
        name="one of four ranks prepares",
        build=lambda cured: fleet(4, lambda hosts, number: late(hosts, number, cured)),
        first=("straggler",),
        lost=False,
    ),
    Case(
        name="one of four GPUs in a file prepares",
        build=lambda cured: in_one_file(
            fleet(4, lambda hosts, number: late(hosts, number, cured), made=on_own_devices(ranks(4)))
        ),
        first=("straggler",),
        lost=False,
    ),
    Case(
        name="one of two GPUs has little to do",
        build=lambda cured: in_one_file(
            fleet(2, lambda hosts, number: idle_half(hosts, number, cured), made=on_own_devices(ranks(2)))
        ),
        first=("idle_gpu",),
        lost=False,
        gain=False,
    ),
    Case(
        name="two ranks over a slow network",
        build=lambda cured: fleet(2, lambda hosts, number: eager_exchange(hosts, number, cured)),
        first=("exposed_comm",),
    ),
    Case(
        name="gathered late, recorded by Nsight",
        build=made(gathered_late, bare, mark="iteration {}"),
        first=("exposed_comm",),
        nsys=True,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_training_of_a_fleet_is_understood(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)
