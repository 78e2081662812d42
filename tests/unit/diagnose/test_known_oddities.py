"""What real recordings contain beside the program: marks twice, spans of the profiler, outliers, warm-up, odd clocks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from test_known_situations import H100, LAUNCHES, PACKAGES, TO_HOST, bare, brought, made

from judging_causes import Case, examine
from making_hosts import Host
from making_traces import HGEMM, RELU

PINNED_DEVICE = "Memcpy HtoD (Pinned -> Device)"
WITHIN = "Memcpy DtoD (Device -> Device)"
ADAM = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>(int)"


def cpu_only() -> Host:
    return Host(stack=False, gpu={})


def surrounded(host: Host, number: int, cured: bool) -> None:
    """Each step again as a mark on the device, and spans of the profiler around everything."""
    begin = host.host_us
    host.eager(20, 400.0)
    host.events.append(
        {
            "ph": "X",
            "cat": "gpu_user_annotation",
            "name": f"ProfilerStep#{number}",
            "pid": 0,
            "tid": 7,
            "ts": host.begin_us + begin,
            "dur": 8000.0,
            "args": {},
        }
    )
    host.events.append(
        {
            "ph": "X",
            "cat": "Trace",
            "name": "PyTorch Profiler (0)",
            "pid": "Spans",
            "tid": "PyTorch Profiler",
            "ts": host.begin_us,
            "dur": host.host_us + 90_000.0,
            "args": {"Op count": 0},
        }
    )
    host.span("overhead", "Activity Buffer Request", host.host_us, 120.0)


def starving_surrounded(host: Host, number: int, cured: bool) -> None:
    """The same, with a loader that is late."""
    if not cured:
        with host.blame():
            host.load(14_000.0)
    surrounded(host, number, cured)


def concurrent(host: Host, number: int, cured: bool) -> None:
    """Two branches of a model on streams of their own: neither fills the device alone, both together do."""
    for _ in range(30):
        host.think(6.0)
        host.launch(HGEMM, 400.0, stream=7)
        host.think(6.0)
        host.launch(HGEMM, 380.0, stream=13)


def allocating_at_first(host: Host, number: int, cured: bool) -> None:
    """The first step allocates all memory; the others take what there is."""
    for place in range(24):
        if number <= 1:
            host.call("cudaMalloc", 900.0)
        host.think(8.0)
        host.launch(HGEMM if place % 5 else RELU, 400.0)


def one_outlier(host: Host, number: int, cured: bool) -> None:
    """One of thirty steps takes a hundred times as long, because something unseen holds the host."""
    host.eager(20, 400.0)
    if number == 17 and not cured:
        with host.blame():
            host.think(900_000.0)


def pinned_in_line(host: Host, number: int, cured: bool) -> None:
    """Large pinned batches on the stream of the kernels."""
    if not cured:
        host._issue("gpu_memcpy", "Memcpy", PINNED_DEVICE, 6000.0, "cudaMemcpyAsync", 7, 5.0, bytes=75_000_000)
    host.eager(24, 400.0)


def concatenated(host: Host, number: int, cured: bool) -> None:
    """Caches are copied within the device in every layer."""
    for _ in range(20):
        host.eager(2, 200.0)
        if not cured:
            with host.cpu("aten::cat"):
                host._issue("gpu_memcpy", "Memcpy", WITHIN, 400.0, "cudaMemcpyAsync", 7, 5.0, bytes=160_000_000)


def recomputed(host: Host, number: int, cured: bool) -> None:
    """Activations are computed again in the backward pass."""
    host.eager(20, 300.0)
    with host.cpu("autograd::engine::evaluate_function: CheckpointFunctionBackward", "CheckpointFunctionBackward"):
        host.eager(60, 300.0)
    host.launch(ADAM, 900.0)


def asked_now_and_then(host: Host, number: int, cured: bool) -> None:
    """The loss is read in every tenth step."""
    host.eager(24, 400.0)
    if number % 10 == 0:
        host.item()


def tuned_first(host: Host, number: int, cured: bool) -> None:
    """Three steps, of which the first takes three seconds, as cuDNN tries its algorithms."""
    if number == 1:
        with host.cpu("aten::cudnn_convolution"):
            host.think(3_000_000.0)
    host.eager(40, 500.0)


def bandwidth_test(host: Host, number: int, cured: bool) -> None:
    """Nothing but copies, one after the other."""
    for _ in range(10):
        host._issue("gpu_memcpy", "Memcpy", PINNED_DEVICE, 2500.0, "cudaMemcpyAsync", 7, 5.0, bytes=64_000_000)
    host.wait("cudaStreamSynchronize")


def under_stacks(host: Host, number: int, cured: bool) -> None:
    """Stacks recorded for long kernels: the host is slow, but ahead."""
    for _ in range(40):
        with host.frames(
            "model.py(20): forward",
            f"{PACKAGES}/torch/nn/modules/module.py(1750): _wrapped_call_impl",
            f"{PACKAGES}/torch/nn/modules/linear.py(125): forward",
        ):
            host.think(120.0)
            with host.cpu("aten::linear", "aten::addmm"):
                host.think(30.0)
                host.launch(HGEMM, 450.0)


def under_stacks_small(host: Host, number: int, cured: bool) -> None:
    """Stacks recorded for short kernels: the host is late all of the time."""
    if cured:
        host.graph([(HGEMM, 20.0)] * 80)
    else:
        with host.blame():
            for _ in range(80):
                with host.frames("model.py(20): forward", f"{PACKAGES}/torch/nn/modules/linear.py(125): forward"):
                    host.think(120.0)
                    with host.cpu("aten::linear", "aten::addmm"):
                        host.think(30.0)
                        host.launch(HGEMM, 20.0)


def between(host: Host, number: int, cured: bool) -> None:
    """Some 300 µs pass between steps, whatever the length of the steps; kernels are long."""
    host.eager(30, 700.0)
    host.wait()
    host.think(300.0)


def lists(host: Host, number: int, cured: bool) -> None:
    """Results are moved to lists after each batch, over which the program then loops."""
    host.eager(20, 400.0)
    brought(host, TO_HOST, 30.0, 100_000)
    if not cured:
        with host.blame(), host.frames("evaluate.py(61): collect"):
            host.think(12_000.0)


def rare_save(host: Host, number: int, cured: bool) -> None:
    """A checkpoint once in twenty steps, without stacks: the call that copies is recorded, the rest is not."""
    host.eager(20, 400.0)
    if number == 10 and not cured:
        host.wait()
        with host.blame():
            for _ in range(30):
                brought(host, TO_HOST, 1500.0, 20_000_000)
                host.think(18_000.0)


def small_and_starved(host: Host, number: int, cured: bool) -> None:
    """A small model and a slow loader: both cost time, but the loader more."""
    if not cured:
        with host.blame():
            host.load(9000.0, workers=False)
    for _ in range(100):
        host.think(12.0)
        host.launch(HGEMM, 9.0)


def gaps_of_copies(host: Host, number: int, cured: bool) -> None:
    """Short pinned copies before long kernels: nothing is wrong."""
    for _ in range(12):
        host._issue("gpu_memcpy", "Memcpy", PINNED_DEVICE, 3.0, "cudaMemcpyAsync", 7, 5.0, bytes=4096)
        host.eager(5, 400.0)


def full_precision(host: Host, number: int, cured: bool) -> None:
    """fp32 products on an H100, whose matrix units could do them in TF32."""
    host.eager(30, 500.0, name="ampere_sgemm_128x128_tn")


def old() -> Host:
    return Host(old=True, stack=False)


CASES: Sequence[Case] = [
    Case(name="marks twice and spans of the profiler", build=made(surrounded, bare)),
    Case(name="a late loader among spans of the profiler", build=made(starving_surrounded, bare), first=("input_starved",)),
    Case(name="branches on two streams", build=made(concurrent, bare)),
    Case(
        name="memory allocated in the first step",
        build=made(allocating_at_first, bare, lead_in=False, steps=8),
        step_counts=(7, 8),
    ),
    Case(
        name="one long step among thirty",
        build=made(one_outlier, bare, steps=30),
        first=("host_work",),
        where=("",),
        says=("in 1 of 30 steps",),
        gain=False,
    ),
    Case(name="pinned copies in line", build=made(pinned_in_line, bare), first=("exposed_h2d",), lost=False),
    Case(
        name="copies within the device",
        build=made(concatenated, bare),
        first=("bandwidth_bound", "exposed_h2d"),
        lost=False,
        gain=False,
    ),
    Case(name="activations computed again", build=made(recomputed, bare)),
    Case(name="a loss read in every tenth step", build=made(asked_now_and_then, bare, steps=20)),
    Case(
        name="three steps, the first tries algorithms",
        build=made(tuned_first, bare, steps=3, lead_in=False),
        step_counts=(2, 3),
        step_s=20.1e-3,
    ),
    Case(name="nothing but copies", build=made(bandwidth_test, bare), first=("exposed_h2d",), lost=False, gain=False),
    Case(name="stacks over long kernels", build=made(under_stacks)),
    Case(name="stacks over short kernels", build=made(under_stacks_small), first=(*LAUNCHES, "host_work"), gain=False),
    Case(name="short pauses between steps", build=made(between, bare)),
    Case(name="results collected in lists", build=made(lists), first=("host_work",), where=("collect (evaluate.py:61)",)),
    Case(name="results collected in lists, an old profiler", build=made(lists, old), first=("host_work",)),
    Case(
        name="a checkpoint once in twenty steps",
        build=made(rare_save, bare, steps=20),
        first=("host_work", "exposed_h2d"),
        lost=False,
        gain=False,
    ),
    Case(name="a small model and a slow loader", build=made(small_and_starved, bare), first=("input_starved",)),
    Case(name="short copies before long kernels", build=made(gaps_of_copies, bare)),
    Case(
        name="products in fp32 on an H100",
        build=made(full_precision, lambda: Host(gpu=dict(H100) | {"computeMajor": 9, "computeMinor": 0}, stack=False)),
        first=("tf32_off", "fp32_matmul"),
        lost=False,
        gain=False,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_recording_with_oddities_is_understood(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)
