"""Situations that recordings of real programs have: what an expert would say first about each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judging_causes import Case, examine
from making_fleets import all_reduce, fleet, in_one_file, on_own_devices, ranks
from making_hosts import Host, loop
from making_traces import GPU, HGEMM, RELU

PACKAGES = "/usr/lib/python3.11/site-packages"
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)"
FUSED = "triton_poi_fused_add_mul_3"
TENSILE = "Cijk_Ailk_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN"
TO_HOST = "Memcpy DtoH (Device -> Pageable)"
TO_DEVICE = "Memcpy HtoD (Pageable -> Device)"
FLASH = "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(flash::Flash_fwd_params)"
H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_045_870_592, "numSms": 132}
MI300X = {"id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 206_141_652_992, "numSms": 304}
MAX_1550 = {"id": 0, "name": "Intel(R) Data Center GPU Max 1550", "totalGlobalMem": 68_719_476_736, "numSms": 512}
LAUNCHES = ("launch_bound", "small_model")
COMPILING = (f"{PACKAGES}/torch/_dynamo/convert_frame.py(1100): __call__", f"{PACKAGES}/sympy/core/expr.py(300): compare")
Body = Callable[[Host, int, bool], None]


def made(body: Body, host: Callable[[], Host] = Host, **options: Any) -> Callable[[bool], Host]:
    return lambda cured: loop(lambda run, number: body(run, number, cured), host=host(), **options)


def bare() -> Host:
    return Host(stack=False)


def brought(host: Host, name: str, us: float, size: int) -> None:
    """A copy that the host waits for, as PyTorch does with memory that is not pinned."""
    with host.cpu("aten::to", "aten::_to_copy", "aten::copy_"):
        host._issue("gpu_memcpy", "Memcpy", name, us, "cudaMemcpyAsync", 7, 5.0, bytes=size)
        host.wait("cudaStreamSynchronize")


# Language models.


def generating(host: Host, number: int, cured: bool) -> None:
    """A token of `generate` without graphs: 300 short kernels, and a question at its end whether all are done."""
    if cured:
        host.graph([(HGEMM, 6.0)] * 300)
    else:
        with host.blame():
            for place in range(300):
                with host.cpu("aten::linear" if place % 3 == 0 else "aten::mul"):
                    host.think(14.0)
                    host.launch(HGEMM if place % 3 == 0 else RELU, 6.0)
    host.item()


def compiled(host: Host, number: int, cured: bool) -> None:
    """Guards are checked before each compiled region, which takes a few dozen microseconds; the device is ahead of nothing."""
    for _ in range(6):
        with host.cpu("TorchDynamo Cache Lookup"):
            host.think(40.0)
        with host.note("Torch-Compiled Region: 0/0"):
            for _ in range(8):
                host.think(6.0)
                host.launch(FUSED, 350.0, call_name="cuLaunchKernel")


def recompiled(host: Host, number: int, cured: bool) -> None:
    """A batch of another length in one of eight steps: everything is compiled again for it."""
    if number == 4 and not cured:
        host.wait()
        with host.blame(), host.frames(*COMPILING):
            host.think(400_000.0)
    compiled(host, number, cured)


def accumulating(host: Host, number: int, cured: bool) -> None:
    """The profiler steps with each micro-batch, the optimizer with every fourth."""
    with host.note("micro_step"):
        host.eager(24, 300.0)
    if number % 4 == 0:
        with host.note("Optimizer.step#AdamW.step"):
            host.launch("void at::native::multi_tensor_apply_kernel<FusedAdam>(int)", 900.0)


# What surrounds the training.


def validating(host: Host, number: int, cured: bool) -> None:
    """One of the steps is followed by a whole validation, which keeps the device as busy as the training does."""
    host.eager(20, 400.0)
    if number == 4:
        with host.note("validate"):
            host.eager(300, 300.0)
    host.wait()


def late_begin(host: Host, number: int, cured: bool) -> None:
    """The recording begins three seconds before the training does."""
    if number == 0:
        host.think(3_000_000.0)
    host.eager(24, 400.0)


def warming_up(host: Host, number: int, cured: bool) -> None:
    """The first two steps compile; the others are as they should be."""
    if number <= 2:
        host.wait()
        with host.frames(*COMPILING):
            host.think(900_000.0 / number)
    host.eager(24, 400.0)


def scored(host: Host, number: int, cured: bool) -> None:
    """All logits are brought to the host for a metric."""
    host.eager(20, 400.0)
    if not cured:
        with host.blame():
            brought(host, TO_HOST, 9000.0, 100_000_000)


def made_of_lists(host: Host, number: int, cured: bool) -> None:
    """Small tensors made of Python lists in every layer: a copy of a few bytes and a wait for it each time."""
    for _ in range(40):
        host.eager(3, 60.0)
        if not cured:
            with host.cpu("aten::to", "aten::copy_"):
                host._issue("gpu_memcpy", "Memcpy", TO_DEVICE, 1.5, "cudaMemcpyAsync", 7, 5.0, bytes=64)
                host.wait("cudaStreamSynchronize")
            with host.blame():
                host.think(90.0)


def unasked(host: Host, number: int, cured: bool) -> None:
    """A server without a stack in its recording: nobody asks most of the time."""
    if not cured:
        with host.blame():
            host.think(50_000.0)
    host.eager(20, 250.0)
    host.wait("cudaStreamSynchronize")


def whole_graph(host: Host, number: int, cured: bool) -> None:
    """A whole step in a graph, and the loss read after it."""
    host.graph([(HGEMM, 40.0)] * 200)
    host.item()


# Other makers.


def reading_on_amd(host: Host, number: int, cured: bool) -> None:
    """A value is read after every few kernels."""
    for _ in range(25):
        for _ in range(4):
            host.think(4.0)
            host.launch(TENSILE, 60.0, call_name="cudaExtModuleLaunchKernel")
        if not cured:
            host.item()
            with host.blame():
                host.think(120.0)


def busy_on_amd(host: Host, number: int, cured: bool) -> None:
    for place in range(40):
        host.think(8.0)
        host.launch(TENSILE if place % 4 else RELU, 400.0)


def reading_on_intel(host: Host, number: int, cured: bool) -> None:
    """The same as on AMD, with the calls of the Unified Runtime."""
    for _ in range(25):
        for _ in range(4):
            host.think(4.0)
            host.launch("gemm_kernel", 60.0, call_name="urEnqueueKernelLaunch")
        if not cured:
            host.launch("at::native::xpu::CopyScalar", 2.0, call_name="urEnqueueKernelLaunch")
            host.wait("urEventWait")
            with host.blame():
                host.think(120.0)


def on(gpu: dict[str, Any], **options: Any) -> Callable[[], Host]:
    return lambda: Host(gpu=dict(gpu), stack=False, **options)


# Several ranks, of which one file is at hand.


def waiting_for_others(cured: bool) -> Host:
    """Another rank is late in every step: this one waits inside its collective."""

    def body(hosts: list[Host], number: int) -> None:
        for host in hosts:
            host.eager(20, 300.0)
        if not cured:
            hosts[1].think(9000.0)
        for host in hosts:
            key = host.device * 1000
            host.launch(REDUCE, 1.0, stream=20, after=host.free_us.get(key + 7, 0.0))
        end = max(host.free_us[host.device * 1000 + 20] for host in hosts) + 400.0
        for host in hosts:
            start, _ = host.busy[host.device].pop()
            host.events[-1]["dur"] = end - start
            host.busy[host.device].append((start, end))
            host.free_us[host.device * 1000 + 20] = host.free_us[host.device * 1000 + 7] = end
            host.wait()

    return fleet(2, body, made=ranks(2))[0]


# Training on one GPU and on several.


def pinned_on_one_stream(host: Host, number: int, cured: bool) -> None:
    """A batch in pinned memory, copied on the stream of the kernels: nothing waits for it on the host, and nothing hides it."""
    stream = 30 if cured else 7
    host._issue(
        "gpu_memcpy", "Memcpy", "Memcpy HtoD (Pinned -> Device)", 3500.0, "cudaMemcpyAsync", stream, 5.0, bytes=80_000_000
    )
    host.eager(20, 400.0)


def scaled(host: Host, number: int, cured: bool) -> None:
    """Mixed precision: the scaler reads one value before the optimizer, which costs a little."""
    host.eager(40, 400.0)
    host.item()
    with host.note("Optimizer.step#AdamW.step"):
        host.launch("void at::native::multi_tensor_apply_kernel<FusedAdam>(int)", 900.0)


def zeroed(host: Host, number: int, cured: bool) -> None:
    """Gradients are filled with zeros one by one, after which the update goes over them one by one."""
    host.eager(20, 400.0)
    host.wait()
    if cured:
        host.graph([(FILL, 2.0)] * 400)
        return
    with host.blame():
        for _ in range(400):
            with host.cpu("aten::zero_", "aten::fill_"):
                host.think(14.0)
                host.launch(FILL, 2.0)


def contended(host: Host, number: int, cured: bool) -> None:
    """Other threads hold Python's lock: every launch comes late, although kernels are long."""
    for _ in range(40):
        with host.cpu("aten::linear"):
            if cured:
                host.think(20.0)
            else:
                with host.blame():
                    host.think(150.0)
            host.launch(HGEMM, 110.0)


def scattered(cured: bool) -> Host:
    """`nn.DataParallel`: one thread sends weights to each GPU in every step, and all but the first wait for it."""

    def body(host: Host, number: int) -> None:
        for device in range(4):
            host.device = device
            host.launch("ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 2500.0, after=host.until(device))
        for device in range(4):
            host.device = device
            host.eager(10, 300.0)
        for device in range(4):
            host.device = device
            host.wait()
        host.device = 0
        host.eager(10, 300.0)
        host.wait()

    properties = {"deviceProperties": [GPU | {"id": number} for number in range(4)]}
    return loop(body, host=Host(extra=properties, ahead_us=20_000.0, stack=False))


def of_eight_bits(host: Host, number: int, cured: bool) -> None:
    """A transformer in fp8: nothing to complain about."""
    for place in range(48):
        host.think(6.0)
        host.launch("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128" if place % 3 else FLASH, 500.0)


def idle_twice(host: Host, number: int, cured: bool) -> None:
    """A slow loader, and a little wait for a value that is much smaller: the larger one comes first."""
    if not cured:
        with host.blame(), host.note("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
            host.think(6000.0)
    host.eager(20, 400.0)
    host.item()


def one_slow_file(cured: bool) -> Host:
    """Four processes in one file; the third prepares its batches for long, and all wait for it."""

    def body(hosts: list[Host], number: int) -> None:
        for rank, host in enumerate(hosts):
            if rank == 2 and not cured:
                with host.blame(), host.frames("data.py(12): prepare"):
                    host.think(8000.0)
            host.eager(16, 300.0)
        all_reduce(hosts, 300.0)
        for host in hosts:
            host.wait()

    return in_one_file(fleet(4, body, made=on_own_devices(ranks(4))))


SITUATIONS = [
    Case(
        name="a pinned batch on the stream of the kernels",
        build=made(pinned_on_one_stream, bare),
        first=("exposed_h2d",),
        lost=False,
    ),
    Case(name="a scaler reads one value", build=made(scaled, bare)),
    Case(name="gradients are zeroed one by one", build=made(zeroed, bare), first=LAUNCHES),
    Case(name="launches come late for long kernels", build=made(contended, bare), first=("launch_bound",), lost=False),
    Case(
        name="weights are sent to each GPU in every step",
        build=scattered,
        first=("exposed_comm", "idle_gpu", "straggler"),
        absent=("launch_bound",),
        lost=False,
        gain=False,
    ),
    Case(name="a transformer in fp8", build=made(of_eight_bits, on(H100))),
    Case(name="a slow loader and a value", build=made(idle_twice, bare), first=("input_starved",), absent=("launch_bound",)),
    Case(name="four processes in one file", build=one_slow_file, first=("straggler",), steps=False, lost=False, gain=False),
    Case(name="generate without graphs", build=made(generating, bare, mark=""), first=LAUNCHES, steps=False, lost=False),
    Case(name="generate without graphs, each token marked", build=made(generating, bare, mark="decode {}"), first=LAUNCHES),
    Case(name="compiled regions with guards", build=made(compiled)),
    Case(
        name="compiled again in one of eight steps",
        build=made(recompiled, steps=8),
        first=("compiling",),
        says=("in 1 of 8 steps",),
        gain=False,
    ),
    Case(name="the profiler steps with each micro-batch", build=made(accumulating, steps=12)),
    Case(name="a validation in one of eight steps", build=made(validating, bare, steps=8)),
    Case(name="the recording begins long before the training", build=made(late_begin)),
    Case(name="the recording begins long before, no marks", build=made(late_begin, bare, mark=""), steps=False),
    Case(name="the first two steps of eight compile", build=made(warming_up, lead_in=False, steps=8), step_counts=(8,)),
    Case(
        name="logits brought to the host",
        build=made(scored, bare),
        first=("exposed_h2d", "host_sync", "pageable_copies"),
        lost=False,
    ),
    Case(name="tensors made of lists in each layer", build=made(made_of_lists, bare), first=("host_sync",), lost=False),
    Case(name="nobody asks the server", build=made(unasked, bare, mark="request {}"), first=("host_work",), where=("",)),
    Case(name="a whole step in a graph", build=made(whole_graph, bare)),
    Case(name="values read on AMD", build=made(reading_on_amd, on(MI300X, hip=True)), first=("host_sync",), lost=False),
    Case(name="a busy MI300X", build=made(busy_on_amd, on(MI300X, hip=True))),
    Case(name="values read on Intel", build=made(reading_on_intel, on(MAX_1550)), first=("host_sync",), lost=False),
    Case(name="another rank is late", build=waiting_for_others, first=("exposed_comm",), says=("slow rank",), lost=False),
    Case(
        name="generate without graphs, recorded by Nsight",
        build=made(generating, bare, mark="token {}"),
        first=LAUNCHES,
        nsys=True,
    ),
    Case(
        name="values read, recorded by Nsight",
        build=made(made_of_lists, mark="step {}"),
        first=("host_sync",),
        nsys=True,
        lost=False,
    ),
    Case(name="a validation, recorded by Nsight", build=made(validating, mark="step {}", steps=8), nsys=True),
]


@pytest.mark.parametrize("case", SITUATIONS, ids=lambda case: case.name)
def test_situations_of_real_programs(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)
