"""Loops of trainings on one GPU: what an expert would say first about each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from test_known_fleets import PINNED_DEVICE, h100, optimizer
from test_known_situations import FUSED, LAUNCHES, PACKAGES, TENSILE, TO_HOST, bare, brought, made

from judging_causes import Case, examine
from making_hosts import Host
from making_traces import HGEMM, RELU

# Trainings on one GPU.


def broken_graphs(host: Host, number: int, cured: bool) -> None:
    """`torch.compile` with a graph break in every layer: Python runs between short compiled regions."""
    with host.blame():
        for _ in range(40):
            host.think(0.0 if cured else 160.0)
            with host.note("Torch-Compiled Region: 3/0"):
                for _ in range(3):
                    host.think(4.0)
                    host.launch(FUSED, 25.0, call_name="cuLaunchKernel")


def progress(host: Host, number: int, cured: bool) -> None:
    """The loss is read for the progress bar after each of eight micro-batches, behind which the queue is empty."""
    for _ in range(8):
        host.eager(12, 60.0, think_us=30.0)
        if not cured:
            host.item()


def scaled(host: Host, number: int, cured: bool) -> None:
    """The scaler asks for infinities: one value a step, behind 12 ms of work."""
    host.eager(30, 400.0)
    host.item()
    optimizer(host)


def prefetched(host: Host, number: int, cured: bool) -> None:
    """The next batch is copied on a stream of its own, which this step then waits for."""
    host._issue("gpu_memcpy", "Memcpy", PINNED_DEVICE, 4000.0, "cudaMemcpyAsync", 21, 5.0, bytes=100_000_000)
    host.eager(24, 400.0)
    host.load(120.0)


def in_time(host: Host, number: int, cured: bool) -> None:
    """A loader that takes long while the device is busy; only in the first step of all there was nothing to do before."""
    host.load(3000.0)
    host.eager(20, 400.0)


def boxes(host: Host, number: int, cured: bool) -> None:
    """A detector chooses among its boxes on the CPU."""
    host.eager(20, 400.0)
    if not cured:
        brought(host, TO_HOST, 40.0, 400_000)
        with host.blame(), host.frames("detect.py(70): choose", "boxes.py(25): suppress"):
            host.think(7000.0)
    host.eager(10, 400.0)


def chosen_rows(host: Host, number: int, cured: bool) -> None:
    """Masks with a number of rows that only the device knows: `nonzero` waits thirty times a step."""
    for _ in range(30):
        host.eager(4, 40.0, think_us=25.0)
        if not cured:
            with host.cpu("aten::nonzero"):
                host._issue("gpu_memcpy", "Memcpy", TO_HOST, 1.5, "cudaMemcpyAsync", 7, 5.0, bytes=8)
                host.wait("cudaStreamSynchronize")


def sampled_graph(host: Host, number: int, cured: bool) -> None:
    """Neighbours of nodes are sampled by the main process before each step."""
    if not cured:
        with host.blame(), host.frames("gnn.py(90): batches", f"{PACKAGES}/dgl/sampling/neighbor.py(400): sample_neighbors"):
            host.think(9000.0)
    host.eager(30, 300.0)


def averaged(host: Host, number: int, cured: bool) -> None:
    """An average of the weights is kept, one tiny kernel for each tensor."""
    host.eager(20, 300.0)
    if not cured:
        with host.blame(), host.note("update_ema"):
            for _ in range(900):
                host.think(8.0)
                host.launch(RELU, 2.0)
    else:
        host.graph([(RELU, 2.0)] * 900)


def slow_calls(host: Host, number: int, cured: bool) -> None:
    """Launches that take longer than their kernels, which start when they return."""
    for _ in range(60):
        with host.cpu("aten::linear"):
            host.think(25.0)
            with host.blame():
                host.launch(HGEMM, 60.0, call=5.0 if cured else 70.0)


def blocking(host: Host, number: int, cured: bool) -> None:
    """`CUDA_LAUNCH_BLOCKING=1`: each launch returns when its kernel is done."""
    for place in range(60):
        with host.cpu("aten::linear"):
            host.think(25.0)
            end = host.launch(HGEMM if place % 5 else RELU, 60.0 if place % 5 else 4.0)
            if not cured:
                call = host.events[-2]
                host.host_us = max(end + 2.0, host.host_us)
                call["dur"] = host.host_us - (call["ts"] - host.begin_us)


def histograms(host: Host, number: int, cured: bool) -> None:
    """A watched model: its gradients are brought to the host, one tensor after the other."""
    host.eager(20, 300.0)
    for _ in range(40 if not cured else 0):
        with (
            host.blame(),
            host.frames("train.py(44): step", f"{PACKAGES}/wandb/integration/torch/wandb_torch.py(150): log_tensor_stats"),
        ):
            host.think(150.0)
            brought(host, TO_HOST, 8.0, 40_000)


def scored(host: Host, number: int, cured: bool) -> None:
    """In one of six steps a metric is computed on the CPU."""
    host.eager(24, 400.0)
    if number == 3 and not cured:
        host.wait()
        with host.blame(), host.frames("train.py(99): evaluate", f"{PACKAGES}/sklearn/metrics/_ranking.py(500): roc_auc_score"):
            host.think(120_000.0)


def augmented(host: Host, number: int, cured: bool) -> None:
    """Images are changed on the device, one after the other."""
    if cured:
        host.graph([(RELU, 2.0)] * 700)
    else:
        with host.blame():
            for _ in range(700):
                host.think(9.0)
                host.launch(RELU, 2.0)
    host.eager(12, 400.0)


def tiny_gaps(host: Host, number: int, cured: bool) -> None:
    """A device that is never idle for more than 2 µs."""
    for place in range(120):
        host.think(3.0)
        host.launch(TENSILE if place % 6 else RELU, 250.0)


def lightning(host: Host, number: int, cured: bool) -> None:
    """Marks inside one another, as a trainer writes them, and a callback that takes long."""
    with host.note("[pl][profile]run_training_batch"):
        with host.note("[pl][profile][Strategy]SingleDeviceStrategy.training_step"):
            host.eager(20, 400.0)
        optimizer(host)
    if not cured:
        with host.blame(), host.note("[pl][profile][Callback]ModelCheckpoint.on_train_batch_end"):
            host.think(16_000.0)


def module_loading(host: Host, number: int, cured: bool) -> None:
    """Recorded from the start: the driver loads its kernels in the first two steps."""
    for place in range(20):
        if number <= 2:
            host.span("overhead", "Runtime Triggered Module Loading", host.host_us, 20_000.0 / number)
            host.think(20_000.0 / number)
        host.launch(HGEMM if place % 5 else RELU, 400.0)
        host.think(8.0)
    host.wait()


def waiting_loader(host: Host, number: int, cured: bool) -> None:
    """Batches of a loader with workers, known only by its functions."""
    if not cured:
        with (
            host.blame(),
            host.frames(
                f"{PACKAGES}/torch/utils/data/dataloader.py(630): __next__",
                f"{PACKAGES}/torch/utils/data/dataloader.py(1440): _get_data",
                "queue.py(154): get",
                "threading.py(295): wait",
            ),
        ):
            host.think(9000.0)
    host.eager(20, 400.0)


CASES: Sequence[Case] = [
    Case(name="batches in time, no marks", build=made(in_time, bare, mark=""), step_counts=(6,)),
    Case(name="breaks between compiled regions", build=made(broken_graphs, h100), first=LAUNCHES),
    Case(name="a progress bar", build=made(progress, bare), first=("host_sync",), lost=False),
    Case(name="a scaler behind long work", build=made(scaled, bare)),
    Case(name="batches copied ahead", build=made(prefetched, bare)),
    Case(name="boxes chosen on the CPU", build=made(boxes), first=("host_work",), where=("suppress (boxes.py:25)",)),
    Case(name="rows chosen by masks", build=made(chosen_rows, bare), first=("host_sync",), lost=False),
    Case(name="neighbours sampled in the loop", build=made(sampled_graph), first=("host_work",), where=("batches (gnn.py:90)",)),
    Case(name="an average of the weights", build=made(averaged, bare), first=(*LAUNCHES, "unfused_optimizer")),
    Case(
        name="launches that block", build=made(blocking, bare), first=("host_sync",), says=("CUDA_LAUNCH_BLOCKING",), lost=False
    ),
    Case(name="launches that take longer than their kernels", build=made(slow_calls, bare), first=LAUNCHES, lost=False),
    Case(name="a watched model", build=made(histograms), first=("host_work", "host_sync"), lost=False),
    Case(name="a metric in one of six steps", build=made(scored), first=("host_work",), where=("evaluate (train.py:99)",)),
    Case(name="images changed one by one on the device", build=made(augmented, bare), first=LAUNCHES),
    Case(name="gaps of two microseconds", build=made(tiny_gaps, lambda: Host(hip=True, stack=False))),
    Case(name="a callback of a trainer", build=made(lightning, bare), first=("host_work",), where=("ModelCheckpoint",)),
    Case(
        name="a callback of a trainer, its own marks only",
        build=made(lightning, bare, mark=""),
        step_counts=(6, 7),
        first=("host_work",),
        where=("ModelCheckpoint",),
    ),
    Case(name="kernels loaded at the start", build=made(module_loading, bare, lead_in=False, steps=12), step_counts=(12,)),
    Case(
        name="kernels loaded at the start, short recording",
        build=made(module_loading, bare, lead_in=False, steps=4),
        step_counts=(4,),
    ),
    Case(name="a loader known by its wait", build=made(waiting_loader), first=("input_starved",)),
    Case(
        name="images prepared, recorded by Nsight",
        build=made(boxes, bare, mark="step {}"),
        first=("host_work", "host_sync"),
        nsys=True,
        lost=False,
    ),
    Case(
        name="launches that block, recorded by Nsight",
        build=made(blocking, bare, mark="iteration {}"),
        first=("host_sync",),
        nsys=True,
        lost=False,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_loop_of_a_training_is_understood(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)
