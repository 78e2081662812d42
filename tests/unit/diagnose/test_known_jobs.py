"""Jobs that people run every day (servers, samplers, agents, several ranks), with the cause that was built into each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judging_causes import Case, examine
from making_fleets import all_reduce, fleet
from making_hosts import Host, loop
from making_traces import RELU

PACKAGES = "/usr/lib/python3.11/site-packages"
GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
DOUBLE = "void cutlass::Kernel<cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1>(Params)"
TENSILE = "Cijk_Ailk_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN"
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
A100 = {
    "id": 0,
    "name": "NVIDIA A100-SXM4-80GB",
    "totalGlobalMem": 85_097_971_712,
    "computeMajor": 8,
    "computeMinor": 0,
    "numSms": 108,
}
MI300X = {"id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 206_141_652_992, "numSms": 304}
LOADING = ("input_starved", "single_process_loader")
COPIES = ("exposed_h2d", "pageable_copies")
LAUNCHES = ("launch_bound", "small_model")
Body = Callable[[Host, int, bool], None]


def made(body: Body, gpu: dict[str, Any] = A100, *, stack: bool = True, hip: bool = False, **how: Any) -> Callable[[bool], Host]:
    def build(cured: bool) -> Host:
        return loop(lambda run, number: body(run, number, cured), host=Host(gpu=dict(gpu), stack=stack, hip=hip), **how)

    return build


def work(host: Host, count: int, us: float, *, think_us: float = 10.0, name: str = GEMM) -> None:
    host.eager(count, us, think_us=think_us, name=name)


def brought(host: Host, us: float, size: int) -> None:
    """A copy from memory that is not pinned."""
    with host.cpu("aten::to", "aten::_to_copy", "aten::copy_"):
        host._issue("gpu_memcpy", "Memcpy", "Memcpy HtoD (Pageable -> Device)", us, "cudaMemcpyAsync", 7, 5.0, bytes=size)
        host.wait("cudaStreamSynchronize")


def stalled(host: Host, us: float, *frames: str) -> None:
    """Python that the run could do without."""
    with host.blame(), host.frames(*frames):
        host.think(us)


# What serves and what samples.


def tokenized(host: Host, number: int, cured: bool) -> None:
    """Texts become tokens between two prefills."""
    if not cured:
        stalled(host, 7000.0, "serve.py(33): tokenize", f"{PACKAGES}/transformers/tokenization_utils_base.py(2800): __call__")
    work(host, 40, 300.0)
    host.item()


def heard(host: Host, number: int, cured: bool) -> None:
    """Sound becomes a spectrogram on the CPU."""
    if not cured:
        with host.blame(), host.frames("whisper/audio.py(110): log_mel_spectrogram"), host.cpu("aten::stft"):
            host.think(40_000.0)
    work(host, 100, 300.0)
    host.item()


def offloaded(host: Host, number: int, cured: bool) -> None:
    """The weights of the model come from the host in each denoising step."""
    for _ in range(6):
        if not cured:
            with host.frames(f"{PACKAGES}/accelerate/hooks.py(165): pre_forward"), host.blame():
                brought(host, 12_000.0, 140_000_000)
        work(host, 20, 500.0)


def checked(host: Host, number: int, cured: bool) -> None:
    """Pictures are checked by a small model on the CPU."""
    work(host, 100, 500.0)
    host.item()
    if not cured:
        with host.blame(), host.cpu("aten::conv2d", "aten::convolution", "aten::mkldnn_convolution"):
            host.think(120_000.0)


def previewed(host: Host, number: int, cured: bool) -> None:
    """Every fifth step shows a preview."""
    work(host, 50, 400.0)
    if number % 5 == 0 and not cured:
        host.wait()
        stalled(host, 60_000.0, "app.py(80): preview", f"{PACKAGES}/PIL/Image.py(2400): save")


def printed(host: Host, number: int, cured: bool) -> None:
    """A loss is printed behind 40 ms of work."""
    work(host, 100, 500.0)
    host.item()
    host.think(400.0)


# Agents.


def simulated(host: Host, number: int, cured: bool) -> None:
    """An environment in Python answers each action."""
    for _ in range(16):
        for _ in range(10):
            host.think(6.0)
            host.launch(GEMM, 20.0)
        host.item()
        with host.blame(), host.frames("train.py(70): rollout", "envs/cart.py(20): step"):
            host.think(100.0 if cured else 3000.0)


def rewarded(host: Host, number: int, cured: bool) -> None:
    """Rewards are computed with regular expressions after the texts were generated."""
    for _ in range(10):
        host.graph([(GEMM, 12.0)] * 300)
        host.item()
    if not cured:
        stalled(host, 45_000.0, "rlhf.py(100): compute_reward", "<built-in method search of re.Pattern object at 0x7f>")
    work(host, 60, 500.0)


# What holds kernels up.


def doubled(host: Host, number: int, cured: bool) -> None:
    """A loss in fp64 on a GPU whose fp64 and fp32 rates are alike, but which has TF32."""
    work(host, 10, 200.0)
    for _ in range(12):
        host.think(8.0)
        host.launch(GEMM if cured else DOUBLE, 450.0 if cured else 900.0)


def allocated_meanwhile(host: Host, number: int, cured: bool) -> None:
    """Memory is allocated for long, but nearly always behind the work of a device that lags; a sum follows that nothing hides."""
    for _ in range(8):
        for _ in range(5):
            host.think(5.0)
            host.launch(TENSILE, 320.0, call_name="cudaModuleLaunchKernel")
        for _ in range(4):
            host.call("hipMalloc", 430.0)
    ended = host.launch(REDUCE, 2000.0 if cured else 8400.0, stream=20, after=host.free_us.get(7, 0.0))
    host.free_us[7] = ended
    host.launch(RELU, 50.0)
    host.wait()


def cut_in_two(host: Host, number: int, cured: bool) -> None:
    """Compiled code is broken by values that Python reads."""
    for _ in range(8):
        with host.note("Torch-Compiled Region: 0/0"):
            for _ in range(6):
                host.think(5.0)
                host.launch("triton_poi_fused_add_mul_3", 100.0)
        if not cured:
            host.item()
            with host.blame():
                host.think(500.0)


def masked_on_amd(host: Host, number: int, cured: bool) -> None:
    """Rows chosen by masks on AMD: a value is read after every three kernels."""
    for _ in range(40):
        for _ in range(3):
            host.think(5.0)
            host.launch(TENSILE, 60.0)
        if not cured:
            host.item()
            with host.blame():
                host.think(130.0)


def averaged(host: Host, number: int, cured: bool) -> None:
    """An average of the weights, parameter by parameter."""
    work(host, 40, 150.0)
    if not cured:
        with host.frames("ema.py(22): update"):
            for _ in range(500):
                host.think(16.0)
                host.launch(RELU, 3.0)


def in_batches_of_wait(host: Host, number: int, cured: bool) -> None:
    """A range of NVTX around the reading of data."""
    if not cured:
        with host.blame(), host.note("data loading"):
            host.think(15_000.0)
    for _ in range(40):
        host.think(8.0)
        host.launch(GEMM, 400.0)
    host.wait()


# Several ranks.


def logging_rank(cured: bool) -> list[Host]:
    """Rank 0 alone writes a log line in each step."""

    def body(hosts: list[Host], number: int) -> None:
        for host in hosts:
            work(host, 30, 300.0)
        all_reduce(hosts, 300.0)
        for host in hosts:
            host.wait()
            if host.rank == 0 and not cured:
                with host.frames("train.py(90): log", f"{PACKAGES}/wandb/sdk/wandb_run.py(1600): log"):
                    host.think(8000.0)

    return fleet(4, body)


def sums_of_micro_batches(cured: bool) -> list[Host]:
    """Gradients are summed after each of four micro-batches."""

    def body(hosts: list[Host], number: int) -> None:
        for part in range(4):
            for host in hosts:
                work(host, 15, 300.0)
            if not cured or part == 3:
                all_reduce(hosts, 2500.0)
        for host in hosts:
            work(host, 3, 100.0)

    return fleet(2, body)


SOME: dict[str, Any] = {"steps": False, "lost": False}
JOBS = [
    Case(name="texts tokenized", build=made(tokenized, mark=""), first=("host_work",), where=("tokenize",), **SOME),
    Case(name="a spectrogram", build=made(heard, mark=""), first=("host_work",), where=("log_mel_spectrogram",), **SOME),
    Case(name="weights offloaded", build=made(offloaded, mark="step {}"), first=COPIES, **SOME),
    Case(name="pictures checked", build=made(checked, stack=False, mark=""), first=("host_work",), where=("conv",), **SOME),
    Case(name="previews", build=made(previewed, mark="denoise {}", steps=10), first=("host_work",), where=("preview",), **SOME),
    Case(name="a loss behind long work", build=made(printed)),
    Case(
        name="an environment in Python",
        build=made(simulated, mark=""),
        first=("host_work",),
        where=("step (cart.py:20)", "step (envs/cart.py:20)"),
        absent=("host_sync",),
        **SOME,
    ),
    Case(name="rewards in Python", build=made(rewarded, mark=""), first=("host_work",), where=("compute_reward",), **SOME),
    Case(name="fp64 on a GPU with TF32", build=made(doubled), first=("fp64_kernels",), **SOME),
    Case(
        name="memory allocated behind a device that lags",
        build=made(allocated_meanwhile, MI300X, stack=False, hip=True, steps=8),
        first=("exposed_comm",),
        gain=False,
        **SOME,
    ),
    Case(name="graph breaks", build=made(cut_in_two, mark=""), first=("host_sync", "host_work"), absent=("compiling",), **SOME),
    Case(name="masks on AMD", build=made(masked_on_amd, MI300X, stack=False, hip=True), first=("host_sync",), gain=False, **SOME),
    Case(name="an average in Python", build=made(averaged, mark=""), first=LAUNCHES, gain=False, **SOME),
    Case(
        name="a range around the reading",
        build=made(in_batches_of_wait, stack=False, mark="iteration {}"),
        nsys=True,
        first=("host_work", "input_starved"),
        where=("data loading",),
        **SOME,
    ),
    Case(name="rank 0 logs", build=logging_rank, first=("straggler",), gain=False, **SOME),
    Case(name="micro-batches summed", build=sums_of_micro_batches, first=("exposed_comm",), **SOME),
]


@pytest.mark.parametrize("case", JOBS, ids=lambda case: case.name)
def test_a_job_is_understood(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)
