"""Whole inference programs and other things that people record, with one thing wrong each or nothing at all."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpuwise
from judging_causes import Case, examine
from making_hosts import Host, loop
from making_traces import HGEMM, RELU, xplane

PACKAGES = "/opt/conda/lib/python3.10/site-packages"
NORM = "void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*)"
SEND = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SCATTER = "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
LAYERS = [(NORM, 5.0), (HGEMM, 40.0), (HGEMM, 45.0)] * 36
QUEUE = ("queue.py(171): get", "threading.py(327): wait", "<built-in method acquire of _thread.lock object at 0x7f2a>")


def engine(cured: bool, *, mark: str = "execute_context_0(0)_generation_8(8)", stack: bool = True) -> Host:
    """Decoding by CUDA graphs, and a scheduler in Python between two tokens that allocates for each of 64 sequences."""

    def body(host: Host, number: int) -> None:
        with host.frames("vllm/v1/worker/gpu_model_runner.py(1400): execute_model"), host.note(mark.format(number)):
            host.graph(LAYERS)
        host.item()
        if not cured:
            with host.blame(), host.frames("vllm/v1/engine/core.py(230): step", "vllm/v1/core/sched/scheduler.py(180): schedule"):
                for _ in range(64):
                    with host.frames("vllm/v1/core/kv_cache_manager.py(180): allocate_slots"):
                        host.think(110.0)

    return loop(body, mark="", steps=6, frames=("vllm/v1/engine/core.py(700): run_busy_loop",), host=Host(stack=stack))


def tokens(cured: bool) -> Host:
    """sglang: the step is marked, and the tokens are turned into text before the next one."""

    def body(host: Host, number: int) -> None:
        host.graph(LAYERS)
        host.wait("cudaEventSynchronize")
        if not cured:
            with host.blame(), host.frames("sglang/srt/managers/detokenizer_manager.py(150): handle_batch_token_id_out"):
                host.think(5000.0)

    return loop(body, mark="step[DECODE bs=64]", frames=("sglang/srt/managers/scheduler.py(750): event_loop_normal",))


def diffusion(cured: bool) -> Host:
    """Each of the denoising steps reads a few values of its tensors."""

    def body(host: Host, number: int) -> None:
        for _ in range(6):
            host.eager(14, 60.0)
            if not cured:
                with host.frames(f"{PACKAGES}/diffusers/schedulers/scheduling_ddim.py(340): step"):
                    host.item()
                    with host.blame():
                        host.think(280.0)

    return loop(body, frames=("sample.py(44): sample",))


def without_requests(cured: bool) -> Host:
    """Nobody asks for anything most of the time."""

    def body(host: Host, number: int) -> None:
        with host.frames("serve.py(20): next_request", *QUEUE):
            host.think(60_000.0)
        host.eager(20, 200.0)
        host.wait()

    return loop(body, mark="request {}")


def warming_up(cured: bool) -> Host:
    """The first answer takes four seconds, the others 10 ms."""

    def body(host: Host, number: int) -> None:
        if number == 1:
            for name, us in (("cudaMalloc", 400_000.0), ("cuLibraryLoadData", 900_000.0), ("cudaLaunchKernel", 2_700_000.0)):
                host.call(name, us)
        host.eager()
        host.wait("cudaStreamSynchronize")

    return loop(body, mark="model_inference", lead_in=False, steps=6, frames=("infer.py(12): main",))


def two_threads(cured: bool) -> Host:
    """Two threads serve at once on streams of their own; each waits for its answer while the other one's kernels run."""

    def body(host: Host, number: int) -> None:
        for thread, stream in ((91, 7), (92, 13)):
            with host.elsewhere(thread, join=thread == 92), host.frames("serve.py(30): answer"):
                host.eager(12, 450.0, stream=stream)

    return loop(body)


def pipeline(cured: bool) -> Host:
    """A stage waits in a receive for the stage before it, 4 ms of 14."""

    def body(host: Host, number: int) -> None:
        for _ in range(4):
            if not cured:
                host.launch(SEND, 1000.0)
            host.eager(5)

    return loop(body, host=Host(rank=1, world_size=4))


def sharded(cured: bool) -> Host:
    """Weights are gathered before each block without prefetch."""

    def body(host: Host, number: int) -> None:
        for _ in range(5):
            end = host.launch(GATHER, 900.0, stream=20, after=0.0 if cured else host.free_us.get(7, 0.0))
            if not cured:
                host.free_us[7] = end
            host.eager(4)
        host.launch(SCATTER, 300.0, stream=20)

    return loop(body, host=Host(rank=0, world_size=8))


def lightning(cured: bool) -> Host:
    """A trainer that marks its batches by a name of its own."""

    def body(host: Host, number: int) -> None:
        with host.note("[pl][profile][Strategy]SingleDeviceStrategy.training_step"):
            host.eager(16, 600.0)
        with host.note("[pl][module]torch.nn.modules.linear.Linear: head"):
            host.eager(4, 600.0)
        if not cured:
            with (
                host.blame(),
                host.frames(f"{PACKAGES}/lightning/pytorch/callbacks/progress.py(90): on_train_batch_end", "bar.py(7): draw"),
            ):
                host.think(25_000.0)

    return loop(body, mark="[pl][profile]run_training_batch", frames=("fit.py(9): main",))


def upload(cured: bool) -> Host:
    """Weights are brought from the host for each layer: the copies are the step."""

    def body(host: Host, number: int) -> None:
        for _ in range(6):
            name = "Memcpy HtoD (Pinned -> Device)"
            if not cured:
                host._issue("gpu_memcpy", "Memcpy", name, 3000.0, "cudaMemcpyAsync", 7, 5.0, bytes=36_000_000)
            host.eager(3)

    return loop(body, frames=("generate.py(5): main",))


def beam_search(cured: bool) -> Host:
    """Tokens are chosen on the host after each wait: 3 ms of Python for each of four."""

    def body(host: Host, number: int) -> None:
        for _ in range(4):
            host.eager(20, 80.0)
            host.item()
            if not cured:
                with host.blame(), host.frames("generate.py(61): pick", "beam.py(14): reorder"):
                    host.think(3000.0)

    return loop(body, frames=("generate.py(5): main",))


def spread_out(cured: bool) -> Host:
    """Short gaps everywhere, and frames around all of them: overhead, not a stall of the function that surrounds them."""

    def body(host: Host, number: int) -> None:
        with host.frames("infer.py(30): predict", "nn.Module: Net_0"):
            if cured:
                host.graph([(HGEMM, 8.0)] * 100)
            else:
                with host.blame():
                    host.eager(100, 8.0, think_us=24.0)

    return loop(body, frames=("infer.py(12): main",))


SERVICES = [
    Case(
        name="an engine with a slow scheduler",
        build=engine,
        first=("host_work",),
        absent=("host_sync", "launch_bound"),
        where=("schedule (", "allocate_slots ("),
        step_counts=(5, 6, 7),
    ),
    Case(
        name="an engine with a slow scheduler without stacks",
        build=lambda cured: engine(cured, mark="execute_model", stack=False),
        first=("host_work",),
        absent=("host_sync", "launch_bound"),
        where=("",),
        confidence="low",
        step_counts=(5, 6, 7),
    ),
    Case(
        name="tokens turned into text in the loop",
        build=tokens,
        first=("host_work",),
        absent=("host_sync", "launch_bound"),
        where=("handle_batch_token_id_out (",),
    ),
    Case(name="diffusion", build=diffusion, first=("host_sync",), absent=("launch_bound",)),
    Case(name="a server without requests", build=without_requests, first=None, absent=("launch_bound", "host_sync"), steps=False),
    Case(name="mostly warm-up", build=warming_up, warm_up=1, absent=("allocator_churn", "compiling", "host_work")),
    Case(name="two threads serve", build=two_threads, absent=("host_work", "launch_bound")),
    Case(name="a pipeline with a bubble", build=pipeline, first=("exposed_comm",), lost_s=4e-3),
    Case(name="weights gathered too late", build=sharded, first=("exposed_comm",), absent=("launch_bound", "host_work")),
    Case(name="a trainer with marks of its own", build=lightning, first=("host_work",), where=("draw (bar.py:7)",)),
    Case(name="weights brought for each layer", build=upload, first=("exposed_h2d",), absent=("host_work",)),
    Case(
        name="tokens chosen on the host",
        build=beam_search,
        first=("host_work",),
        absent=("host_sync", "launch_bound"),
        where=("reorder (beam.py:14)",),
    ),
    Case(
        name="short gaps inside of one function", build=spread_out, first=("launch_bound", "small_model"), absent=("host_work",)
    ),
]


@pytest.mark.parametrize("case", SERVICES, ids=lambda case: case.name)
def test_a_whole_program_is_understood(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)


def test_a_profile_of_jax_blames_nothing_that_it_does_not_show(tmp_path: Path) -> None:
    path = tmp_path / "made.xplane.pb"
    path.write_bytes(xplane(kernels=60, kernel_us=100, gap_us=50))
    found = gpuwise.why([str(path)]).to_dict()
    assert found["step_s"] == pytest.approx(60 * 150e-6, rel=0.02)
    assert found["busy_fraction"] == pytest.approx(2 / 3, rel=0.02)
    assert not {"host_sync", "input_starved", "compiling"} & {finding["code"] for finding in found["findings"]}


@pytest.mark.parametrize("gap_us", [600.0, 1500.0, 6000.0, 40_000.0])
def test_long_gaps_are_no_launch_overhead_whatever_their_length(gap_us: float, tmp_path: Path) -> None:
    """Kernels are launched every 20 µs; a few gaps of thirty times that and more are stalls."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            for _ in range(4):
                host.eager(10, 60.0)
                host.wait("cudaStreamSynchronize")
                if not cured:
                    with host.blame(), host.frames("train.py(31): decide"):
                        host.think(gap_us)
                host.launch(RELU, 40.0)

        return loop(body)

    examine(
        Case(
            name=f"four gaps of {gap_us:.0f} µs a step",
            build=build,
            first=("host_work",) if gap_us > 5000.0 else ("host_work", "host_sync"),
            absent=("launch_bound",),
        ),
        tmp_path,
    )
