"""Programs that serve or generate, recorded with and without stacks: what an expert would say first about each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from test_known_situations import FLASH, H100, LAUNCHES, PACKAGES, TENSILE, TO_DEVICE, TO_HOST, brought, made

from judging_causes import Case, examine
from making_fleets import all_reduce, fleet, ranks
from making_hosts import Host
from making_traces import RELU

VLLM = f"{PACKAGES}/vllm/v1"
GEMM = "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT"
SAMPLE = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>(int)"
DECODING = [(GEMM, 90.0), (FLASH, 40.0), (RELU, 6.0)] * 40
PINNED_HOST = "Memcpy DtoH (Device -> Pinned)"
PINNED_DEVICE = "Memcpy HtoD (Pinned -> Device)"


def h100() -> Host:
    return Host(gpu=dict(H100))


def h100_bare() -> Host:
    return Host(gpu=dict(H100), stack=False)


def sampled(host: Host) -> None:
    """The tokens of a step are chosen on the device and brought to pinned memory, for which the host waits."""
    for _ in range(6):
        host.think(4.0)
        host.launch(SAMPLE, 12.0)
    host._issue("gpu_memcpy", "Memcpy", PINNED_HOST, 2.0, "cudaMemcpyAsync", 7, 5.0, bytes=2048)
    host.wait("cudaEventSynchronize")


def inputs(host: Host) -> None:
    """Positions and tables of a batch, each in a copy of its own that does not block."""
    for _ in range(6):
        host.think(8.0)
        host._issue("gpu_memcpy", "Memcpy", PINNED_DEVICE, 1.5, "cudaMemcpyAsync", 7, 5.0, bytes=4096)


# Engines that serve language models.


def decoding(host: Host, number: int, cured: bool) -> None:
    """A step of an engine whose host takes 400 µs where the device takes 5.6 ms."""
    with host.frames(f"{VLLM}/core/sched/scheduler.py(170): schedule"):
        host.think(150.0)
    inputs(host)
    host.graph(DECODING)
    sampled(host)
    host.think(150.0)


def scheduled(host: Host, number: int, cured: bool) -> None:
    """The same, but its scheduler looks at every one of a thousand requests."""
    if not cured:
        with host.blame(), host.frames(f"{VLLM}/core/sched/scheduler.py(170): schedule"):
            host.think(3000.0)
    inputs(host)
    host.graph(DECODING)
    sampled(host)


def detokenized(host: Host, number: int, cured: bool) -> None:
    """Texts are made of tokens in the process that drives the device."""
    inputs(host)
    host.graph(DECODING)
    sampled(host)
    if not cured:
        with host.blame(), host.frames("serve.py(88): emit", f"{PACKAGES}/transformers/tokenization_utils_fast.py(640): _decode"):
            host.think(4000.0)


def guided(host: Host, number: int, cured: bool) -> None:
    """A grammar says on the CPU which tokens may follow; the mask is copied to the device."""
    inputs(host)
    host.graph(DECODING)
    if not cured:
        host.wait("cudaEventSynchronize")
        with (
            host.blame(),
            host.frames("grammar.py(40): fill_bitmask", f"{PACKAGES}/xgrammar/matcher.py(300): fill_next_token_bitmask"),
        ):
            host.think(5000.0)
        host._issue("gpu_memcpy", "Memcpy", PINNED_DEVICE, 20.0, "cudaMemcpyAsync", 7, 5.0, bytes=1_000_000)
    sampled(host)


def overlapped(host: Host, number: int, cured: bool) -> None:
    """The scheduler plans the next step while the device works on this one."""
    host.graph(DECODING)
    with host.frames("scheduler.py(700): get_next_batch_to_run"):
        host.think(2500.0)
    inputs(host)


def chunked(host: Host, number: int, cured: bool) -> None:
    """Prompts and tokens in turn: every third step is five times as long."""
    host.think(100.0)
    for _ in range(40):
        host.think(6.0)
        host.launch(GEMM, 400.0 if number % 3 == 0 else 80.0)
        host.launch(FLASH, 150.0 if number % 3 == 0 else 30.0)
    sampled(host)


def eager_decoding(host: Host, number: int, cured: bool) -> None:
    """`enforce_eager`: 400 kernels of 8 µs, each launched by itself."""
    if cured:
        host.graph([(GEMM, 8.0)] * 400)
    else:
        with host.blame():
            for place in range(400):
                host.think(9.0)
                host.launch(GEMM if place % 4 else RELU, 8.0, call_name="cuLaunchKernelEx" if place % 2 else "cudaLaunchKernel")
    sampled(host)


def drafting(host: Host, number: int, cured: bool) -> None:
    """Speculation: a small model proposes five tokens without graphs, the large one checks them in a graph."""
    if cured:
        host.graph([(GEMM, 5.0)] * 300)
    else:
        with host.blame():
            for _ in range(300):
                host.think(11.0)
                host.launch(GEMM, 5.0)
    host.graph(DECODING[:60])
    sampled(host)


def adapters(host: Host, number: int, cured: bool) -> None:
    """The weights of an adapter are brought from pageable memory for every batch."""
    if not cured:
        with host.blame():
            brought(host, TO_DEVICE, 9000.0, 80_000_000)
    host.graph(DECODING)
    sampled(host)


def offloaded_cache(host: Host, number: int, cured: bool) -> None:
    """Blocks of the cache go to the host on a stream of their own, while the device computes."""
    host._issue("gpu_memcpy", "Memcpy", PINNED_HOST, 3000.0, "cudaMemcpyAsync", 21, 5.0, bytes=60_000_000)
    host.think(100.0)
    host.graph(DECODING)
    sampled(host)


def pooled(host: Host, number: int, cured: bool) -> None:
    """Embeddings of a batch of texts: the forward pass fills the device, and 200 µs lie between batches."""
    host.eager(48, 300.0, name=GEMM)
    brought(host, TO_HOST, 60.0, 600_000)
    host.think(200.0)


def tokenized_on_the_way(host: Host, number: int, cured: bool) -> None:
    """Embeddings again, but texts are tokenized between batches."""
    host.eager(48, 300.0, name=GEMM)
    brought(host, TO_HOST, 60.0, 600_000)
    if not cured:
        with (
            host.blame(),
            host.frames("embed.py(31): encode_batch", f"{PACKAGES}/transformers/tokenization_utils_base.py(2900): __call__"),
        ):
            host.think(11_000.0)


def speech(host: Host, number: int, cured: bool) -> None:
    """An encoder in one go, and then a hundred tokens whose kernels are far too short for the host."""
    host.eager(30, 500.0, name=GEMM)
    if cured:
        host.graph([(GEMM, 5.0)] * 3000)
    else:
        with host.blame():
            for place in range(3000):
                host.think(10.0)
                host.launch(GEMM if place % 3 else RELU, 5.0)
    host.item()


def vision(host: Host, number: int, cured: bool) -> None:
    """Images are decoded and resized by the process that drives the device."""
    if not cured:
        with (
            host.blame(),
            host.frames(
                "serve.py(52): prepare",
                f"{PACKAGES}/transformers/image_processing_base.py(500): preprocess",
                f"{PACKAGES}/PIL/Image.py(2200): resize",
            ),
        ):
            host.think(14_000.0)
    host.eager(40, 400.0, name=GEMM)
    host.wait("cudaStreamSynchronize")


def split(hosts: list[Host], number: int, *, cured: bool, us: float) -> None:
    """A model split over GPUs: two sums in each layer, behind which everything waits."""
    for _ in range(24):
        for host in hosts:
            host.eager(4, 60.0, name=GEMM, think_us=2.0)
        if not cured:
            all_reduce(hosts, us, "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*)")


def served_split(cured: bool) -> list[Host]:
    return fleet(2, lambda hosts, number: split(hosts, number, cured=cured, us=120.0), made=ranks(2, gpu=dict(H100), stack=False))


def served_split_well(cured: bool) -> list[Host]:
    return fleet(2, lambda hosts, number: split(hosts, number, cured=cured, us=6.0), made=ranks(2, gpu=dict(H100), stack=False))


# Images.


def painted(host: Host, number: int, cured: bool) -> None:
    """Steps of denoising that the device outlasts; the scheduler reads one value in each."""
    host.eager(60, 700.0, name=GEMM)
    host.item()
    for _ in range(8):
        host.think(8.0)
        host.launch(RELU, 20.0)


def saved_images(host: Host, number: int, cured: bool) -> None:
    """A picture in eight steps of denoising, which is then compressed and written by the same process."""
    for _ in range(8):
        host.eager(20, 500.0, name=GEMM)
    brought(host, TO_HOST, 300.0, 3_000_000)
    if not cured:
        with (
            host.blame(),
            host.frames(
                "generate.py(44): save", f"{PACKAGES}/PIL/Image.py(2400): save", f"{PACKAGES}/PIL/PngImagePlugin.py(1300): _save"
            ),
        ):
            host.think(60_000.0)


def moved_parts(host: Host, number: int, cured: bool) -> None:
    """`enable_model_cpu_offload`: the weights of each part are brought before it runs."""
    for _ in range(3):
        if not cured:
            with host.blame():
                brought(host, TO_DEVICE, 40_000.0, 500_000_000)
        host.eager(20, 600.0, name=GEMM)


def video(host: Host, number: int, cured: bool) -> None:
    """Frames are made on the device and encoded on the CPU by an extension that no profiler sees."""
    host.eager(40, 500.0, name=GEMM)
    brought(host, TO_HOST, 500.0, 6_000_000)
    if not cured:
        with host.blame():
            host.think(15_000.0)


def amd_decoding(host: Host, number: int, cured: bool) -> None:
    """Tokens without graphs on an AMD GPU."""
    if cured:
        host.graph([(TENSILE, 7.0)] * 300)
    else:
        with host.blame():
            for _ in range(300):
                host.think(12.0)
                host.launch(TENSILE, 7.0)
    host.item()


def mi300x() -> Host:
    gpu = {"id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 206_141_652_992, "numSms": 304, "warpSize": 64}
    return Host(gpu=gpu, hip=True, stack=False)


CASES: Sequence[Case] = [
    Case(
        name="decoding whose host is quick",
        build=made(decoding, h100_bare, steps=20),
        first=("host_sync",),
        says=("asynchronous scheduling",),
        gain=False,
    ),
    Case(
        name="a scheduler that looks at every request",
        build=made(scheduled, h100, steps=12),
        first=("host_work",),
        where=("schedule (",),
    ),
    Case(
        name="tokens turned into text by the engine",
        build=made(detokenized, h100, steps=12),
        first=("host_work",),
        where=("emit (serve.py:88)",),
    ),
    Case(
        name="a grammar on the CPU",
        build=made(guided, h100, steps=12),
        first=("host_work",),
        where=("fill_bitmask (grammar.py:40)",),
    ),
    Case(name="a scheduler that overlaps", build=made(overlapped, h100, steps=12)),
    Case(name="prompts in chunks", build=made(chunked, h100_bare, steps=12)),
    Case(name="an engine without graphs", build=made(eager_decoding, h100_bare, steps=10), first=LAUNCHES),
    Case(
        name="an engine without graphs or marks",
        build=made(eager_decoding, h100_bare, steps=10, mark=""),
        first=LAUNCHES,
        steps=False,
        lost=False,
    ),
    Case(name="speculation without graphs", build=made(drafting, h100_bare, steps=10), first=LAUNCHES),
    Case(
        name="adapters brought for each batch",
        build=made(adapters, h100_bare, steps=10),
        first=("exposed_h2d", "pageable_copies"),
        lost=False,
    ),
    Case(name="a cache that goes to the host meanwhile", build=made(offloaded_cache, h100_bare, steps=10)),
    Case(name="embeddings of texts", build=made(pooled, h100_bare, steps=10)),
    Case(
        name="embeddings of texts that are tokenized first",
        build=made(tokenized_on_the_way, h100, steps=10),
        first=("host_work",),
        where=("encode_batch (embed.py:31)",),
    ),
    Case(name="speech", build=made(speech, h100_bare, steps=4), first=LAUNCHES),
    Case(
        name="images prepared by the server",
        build=made(vision, h100, steps=8),
        first=("host_work",),
        where=("prepare (serve.py:52)",),
    ),
    Case(name="a model split over two GPUs with a slow link", build=served_split, first=("exposed_comm",)),
    Case(name="a model split over two GPUs with a fast link", build=served_split_well),
    Case(name="denoising", build=made(painted, h100_bare, steps=10)),
    Case(
        name="pictures saved by the same process",
        build=made(saved_images, h100, steps=6),
        first=("host_work",),
        where=("save (generate.py:44)",),
    ),
    Case(
        name="pictures saved, without marks",
        build=made(saved_images, h100, steps=6, mark=""),
        first=("host_work",),
        where=("save (generate.py:44)",),
        steps=False,
        lost=False,
    ),
    Case(
        name="parts of a model brought in turn",
        build=made(moved_parts, h100_bare, steps=5),
        first=("exposed_h2d", "pageable_copies"),
        lost=False,
    ),
    Case(name="frames encoded unseen", build=made(video, h100_bare, steps=8), first=("host_work",), where=("",)),
    Case(name="tokens without graphs on AMD", build=made(amd_decoding, mi300x, steps=8), first=LAUNCHES),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_server_is_understood(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)
