"""More programs as people record them, each with one cause or none: what an expert would say first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from judging_causes import Case, examine
from making_hosts import Host, loop
from making_traces import HGEMM, RELU, SGEMM

PACKAGES = "/opt/conda/lib/python3.10/site-packages"
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ON_DEVICE, TO_DEVICE = "Memcpy DtoD (Device -> Device)", "Memcpy HtoD (Pageable -> Device)"
ADAM = "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>(int)"
SOFTMAX = "void (anonymous namespace)::cunn_SoftMaxForward<4, float>(float*)"
LSTM = "void LSTM_elementWise_fp<float, float>(int)"
FP64 = "volta_dgemm_128x64_nn"
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
LAUNCHES = ("launch_bound", "small_model")
WORKER = (
    f"{PACKAGES}/torch/utils/data/dataloader.py(1133): _try_get_data",
    "<built-in method poll of select.poll object at 0x7f>",
)
Body = Callable[[Host, int, bool], None]


def made(body: Body, host: Callable[[], Host] = Host, **options: object) -> Callable[[bool], Host]:
    return lambda cured: loop(lambda run, number: body(run, number, cured), host=host(), **options)  # type: ignore[arg-type]


def bare() -> Host:
    return Host(stack=False)


def two_models(host: Host, number: int, cured: bool) -> None:
    """A generator and a critic, with an optimizer each."""
    for name in ("Optimizer.step#Adam.step", "Optimizer.step#Adam.step"):
        host.eager(15, 400.0)
        with host.note(name):
            host.launch(ADAM, 300.0)


def environment(host: Host, number: int, cured: bool) -> None:
    """Reinforcement learning: the simulator runs on the CPU, a small policy on the GPU."""
    for _ in range(4):
        if not cured:
            with host.blame(), host.frames("rollout.py(51): collect", f"{PACKAGES}/gymnasium/wrappers/common.py(120): step"):
                host.think(3000.0)
        host.eager(12, 60.0)
        host.item()


def recurrent(host: Host, number: int, cured: bool) -> None:
    """A recurrent network in a Python loop: 400 tiny kernels."""
    if cured:
        host.graph([(LSTM, 5.0)] * 400)
    else:
        with host.blame():
            for _ in range(400):
                host.think(10.0)
                host.launch(LSTM, 5.0)


def penalties(host: Host, number: int, cured: bool) -> None:
    """Generation that asks after each token whether it is done."""
    for _ in range(5):
        for _ in range(60):
            host.think(3.0)
            host.launch(HGEMM, 18.0, call=3.0)
        if not cured:
            host.item()
            with host.blame():
                host.think(250.0)


def gathered_batch(host: Host, number: int, cured: bool) -> None:
    """Workers are too slow; the wait is recorded with its functions."""
    if not cured:
        with host.blame(), host.note(LOADER), host.frames(*WORKER):
            host.think(15_000.0)
    host.eager(20, 400.0)
    host.wait("cudaStreamSynchronize")


def every_other(host: Host, number: int, cured: bool) -> None:
    """Every fourth batch is late."""
    if not cured and number % 4 == 0:
        with host.blame(), host.note(LOADER):
            host.think(40_000.0)
    else:
        with host.note(LOADER):
            host.think(50.0)
    host.eager(20, 400.0)
    host.wait("cudaStreamSynchronize")


def in_time(host: Host, number: int, cured: bool) -> None:
    """Batches arrive in time: the loader takes long, but the device is busy meanwhile."""
    with host.note(LOADER):
        host.think(3000.0)
    host.eager(20, 400.0)


def pageable(host: Host, number: int, cured: bool) -> None:
    """A large batch is copied from memory that is not pinned."""
    if not cured:
        with host.blame():
            end = host._issue("gpu_memcpy", "Memcpy", TO_DEVICE, 5000.0, "cudaMemcpyAsync", 7, 5.0, bytes=20_000_000)
            host.events[-2]["dur"] = end - (host.events[-2]["ts"] - host.begin_us)
            host.host_us = max(host.host_us, end)
    host.eager(20, 400.0)


def cloned(host: Host, number: int, cured: bool) -> None:
    """Tensors are copied on the device again and again."""
    for _ in range(10):
        host.eager(2, 400.0)
        if not cured:
            host._issue("gpu_memcpy", "Memcpy", ON_DEVICE, 700.0, "cudaMemcpyAsync", 7, 5.0, bytes=400_000_000)


def in_fp32(host: Host, number: int, cured: bool) -> None:
    host.eager(20, 200.0 if cured else 600.0, name=HGEMM if cured else SGEMM)


def in_fp64(host: Host, number: int, cured: bool) -> None:
    host.eager(20, 600.0, name=HGEMM if cured else FP64)


def plain_attention(host: Host, number: int, cured: bool) -> None:
    """Attention in several kernels, each of which moves the whole matrix of scores."""
    for _ in range(12):
        host.think(10.0)
        host.launch(HGEMM, 200.0)
        for name in (RELU, SOFTMAX, RELU):
            host.launch(name, 60.0 if cured else 250.0)
        host.launch(HGEMM, 200.0)


def graphs_in_pieces(host: Host, number: int, cured: bool) -> None:
    """Piecewise graphs with attention between them, launched in time."""
    for _ in range(16):
        host.think(4.0)
        host.graph([(HGEMM, 60.0), (HGEMM, 60.0), (RELU, 10.0)])
        host.think(4.0)
        host.launch("kernel_unified_attention_2d", 60.0, call_name="cuLaunchKernelEx")


def polled(host: Host, number: int, cured: bool) -> None:
    """The host asks whether the device is done, again and again, while it works."""
    host.graph([(HGEMM, 80.0)] * 60)
    while host.host_us < host.until():
        host.call("cudaEventQuery", 2.0)
        host.think(20.0)


def saved_elsewhere(host: Host, number: int, cured: bool) -> None:
    """Another thread saves meanwhile; nothing waits for it."""
    with host.elsewhere(93, join=False), host.frames("save.py(9): write", f"{PACKAGES}/torch/serialization.py(600): save"):
        host.think(9000.0)
    host.eager(20, 500.0)


def logged(host: Host, number: int, cured: bool) -> None:
    host.eager(20, 400.0)
    if not cured:
        host.item()
        with host.blame(), host.frames("train.py(66): log_metrics", f"{PACKAGES}/wandb/sdk/wandb_run.py(1800): log"):
            host.think(6000.0)


def clipped(host: Host, number: int, cured: bool) -> None:
    """Gradients are clipped by a loop over parameters that reads each norm."""
    host.eager(20, 400.0)
    for _ in range(40):
        host.launch(RELU, 3.0)
        if not cured:
            host.item()
            with host.blame():
                host.think(60.0)


def validated(host: Host, number: int, cured: bool) -> None:
    """Training with a validation pass of the same kernels; nothing wrong."""
    host.eager(20, 500.0)
    with host.note("validation"):
        host.eager(8, 500.0)


def tokenized(host: Host, number: int, cured: bool) -> None:
    """Texts are turned into tokens inside the loop."""
    if not cured:
        with (
            host.blame(),
            host.frames("train.py(31): batch", f"{PACKAGES}/transformers/tokenization_utils_base.py(2800): __call__"),
        ):
            host.think(10_000.0)
    host.eager(20, 400.0)
    host.wait("cudaStreamSynchronize")


def downloaded(host: Host, number: int, cured: bool) -> None:
    """Samples come over the network, in the main process."""
    if not cured:
        with (
            host.blame(),
            host.frames(
                "stream.py(18): fetch", f"{PACKAGES}/urllib3/connectionpool.py(700): urlopen", "socket.py(700): readinto"
            ),
        ):
            host.think(20_000.0)
    host.eager(20, 400.0)


def summed_late(host: Host, number: int, cured: bool) -> None:
    """Accumulation that sums gradients after every micro-batch."""
    for _ in range(4):
        host.eager(8, 400.0)
        if not cured:
            host.launch(REDUCE, 900.0)


def emptied(host: Host, number: int, cured: bool) -> None:
    """The cache is emptied in every step."""
    host.eager(20, 300.0)
    if not cured:
        with host.blame(), host.frames("train.py(80): step", f"{PACKAGES}/torch/cuda/memory.py(160): empty_cache"):
            for _ in range(12):
                host.call("cudaFree", 350.0)
            for _ in range(12):
                host.call("cudaMalloc", 250.0)


def waiting_for_nothing(host: Host, number: int, cured: bool) -> None:
    """A benchmark that synchronises after each step, as it should."""
    host.eager(40, 500.0)
    host.wait("cudaDeviceSynchronize")


def inference_small(host: Host, number: int, cured: bool) -> None:
    """A small model at batch 1, one request after the other."""
    if cured:
        host.graph([(SGEMM, 6.0), (RELU, 2.5)] * 60)
    else:
        with host.blame():
            for place in range(120):
                host.think(12.0)
                host.launch(RELU if place % 2 else SGEMM, 2.5 if place % 2 else 6.0)
    host.wait("cudaStreamSynchronize")


def warming_up(host: Host, number: int, cured: bool) -> None:
    """The first step sets up the driver."""
    if number == 1:
        host.call("cudaFree", 300_000.0)
        host.call("cudaLaunchKernel", 400_000.0)
    host.eager(20, 400.0)
    host.wait("cudaStreamSynchronize")


def cut_short(host: Host, number: int, cured: bool) -> None:
    """The recording ends soon after its second step has begun."""
    host.eager(40 if number == 1 else 6, 400.0)
    host.wait("cudaStreamSynchronize")


def tuning(host: Host, number: int, cured: bool) -> None:
    """The first step tries several kernels at each place."""
    for place in range(20):
        for candidate in range(3 if number == 1 and place % 3 == 1 else 0):
            host.think(2000.0)
            host.launch(f"candidate_{place}_{candidate}", 300.0)
        host.think(8.0)
        host.launch("void first_kernel(int)" if place == 0 else RELU if place % 5 == 0 else HGEMM, 400.0)
    host.wait("cudaStreamSynchronize")


def across(host: Host, number: int, cured: bool) -> None:
    """Activations go from GPU to GPU, and nothing runs meanwhile."""
    for _ in range(6):
        host.eager(3, 300.0)
        if not cured:
            name = "Memcpy PtoP (Device -> Device)"
            host._issue("gpu_memcpy", "Memcpy", name, 700.0, "cudaMemcpyPeerAsync", 7, 5.0, bytes=16_000_000)


CASES: Sequence[Case] = [
    Case(name="two steps, the first warms up", build=made(warming_up, steps=2, lead_in=False), step_s=8.02e-3),
    Case(name="two steps, the second cut short", build=made(cut_short, steps=2, lead_in=False)),
    Case(
        name="the first of ten tunes its kernels", build=made(tuning, bare, steps=10, lead_in=False, mark=""), step_counts=(9, 10)
    ),
    Case(name="activations go from GPU to GPU", build=made(across, bare), first=("exposed_h2d",), says=("between GPUs",)),
    Case(name="a generator and a critic", build=made(two_models)),
    Case(name="a simulator on the CPU", build=made(environment), first=("host_work",), where=("collect (rollout.py:51)",)),
    Case(name="a recurrent network in Python", build=made(recurrent, bare), first=LAUNCHES),
    Case(
        name="done after each token?",
        build=made(penalties, bare),
        first=("host_sync", "host_work"),
        absent=("launch_bound",),
        lost=False,
    ),
    Case(name="workers are too slow", build=made(gathered_batch), first=("input_starved",), absent=("host_sync",)),
    Case(
        name="every fourth batch is late", build=made(every_other, steps=12), first=("input_starved",), says=("in 3 of 12 steps",)
    ),
    Case(name="batches arrive in time", build=made(in_time)),
    Case(name="a batch in pageable memory", build=made(pageable, bare), first=("exposed_h2d", "pageable_copies"), lost=False),
    Case(name="clones on the device", build=made(cloned, bare), first=("bandwidth_bound",), lost=False, gain=False),
    Case(name="products in fp32", build=made(in_fp32, bare), first=("fp32_matmul", "slow_ops"), lost=False, gain=False),
    Case(name="products in fp64", build=made(in_fp64, bare), first=("fp64_kernels",), lost=False, gain=False),
    Case(
        name="attention in several kernels", build=made(plain_attention, bare), first=("bandwidth_bound",), lost=False, gain=False
    ),
    Case(name="graphs in pieces", build=made(graphs_in_pieces, bare)),
    Case(name="the host asks whether the device is done", build=made(polled, bare)),
    Case(name="another thread saves", build=made(saved_elsewhere)),
    Case(
        name="a log line over the network",
        build=made(logged),
        first=("host_work",),
        where=("log_metrics (train.py:66)",),
        says=("log every",),
    ),
    Case(name="norms read one by one", build=made(clipped, bare), first=("host_sync",), lost=False),
    Case(name="a validation pass in each step", build=made(validated)),
    Case(name="texts tokenized in the loop", build=made(tokenized), first=("host_work",), where=("batch (train.py:31)",)),
    Case(name="samples over the network", build=made(downloaded), first=("host_work",), where=("fetch (stream.py:18)",)),
    Case(
        name="gradients summed after each micro-batch",
        build=made(summed_late, lambda: Host(rank=2, world_size=4)),
        first=("exposed_comm",),
    ),
    Case(name="the cache is emptied", build=made(emptied), first=("allocator_churn",), absent=("host_work",), lost=False),
    Case(name="a benchmark that waits as it should", build=made(waiting_for_nothing)),
    Case(name="one request after the other", build=made(inference_small, bare), first=LAUNCHES),
    Case(
        name="one request after the other, recorded by Nsight",
        build=made(inference_small, bare, mark="request {}"),
        first=LAUNCHES,
        nsys=True,
    ),
    Case(
        name="a simulator on the CPU, recorded by Nsight",
        build=made(environment, mark="iteration {}"),
        first=("host_work",),
        nsys=True,
        lost=False,
    ),
    Case(
        name="products in fp32, recorded by Nsight",
        build=made(in_fp32, mark="step {}"),
        first=("fp32_matmul",),
        nsys=True,
        lost=False,
        gain=False,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_an_expert_would_say_first(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)
