"""Recordings as people make them: short ones, serving engines, sharded trainings, copies, profilers that get in the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import gpuwise
from gpuwise.core.errors import BadFile
from judging_causes import Case, examine
from making_hosts import Host, loop
from making_traces import HGEMM, RELU

PACKAGES = "/opt/conda/lib/python3.10/site-packages"
GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ALL_TO_ALL = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
ONE_SHOT = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)"
FLASH = "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)"
POINTWISE = "triton_poi_fused_add_mul_native_layer_norm_3"
CIJK = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1"
TO_HOST, ON_DEVICE = "Memcpy DtoH (Device -> Pinned)", "Memcpy DtoD (Device -> Device)"
TO_DEVICE = "Memcpy HtoD (Pinned -> Device)"
FUSED = "triton_tem_fused_addmm_relu_2"
DECODE = [(HGEMM, 25.0), (FLASH, 15.0), (HGEMM, 30.0), ("void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*)", 5.0)] * 32
SMALL = ("ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_tn", RELU, FLASH)
Body = Callable[[Host, int, bool], None]


def made(body: Body, **options: object) -> Callable[[bool], Host]:
    """A loop of this body, with and without its cause."""

    def build(cured: bool) -> Host:
        chosen = dict(options)
        host = chosen.pop("host", Host)
        return loop(lambda run, number: body(run, number, cured), host=host(), **chosen)  # type: ignore[operator, arg-type]

    return build


def moved(host: Host, name: str, us: float, size: int = 50_000_000, stream: int = 7, after: float = 0.0) -> None:
    """A copy that the host does not wait for; what follows on the main stream waits for it."""
    end = host._issue("gpu_memcpy", "Memcpy", name, us, "cudaMemcpyAsync", stream, 5.0, bytes=size, after=after)
    host.free_us[7] = max(host.free_us.get(7, 0.0), end) if stream == 7 else host.free_us.get(7, 0.0)


def small_kernels(host: Host, count: int = 300, us: float = 4.0, think: float = 9.0, call: str = "cudaLaunchKernel") -> None:
    for place in range(count):
        host.think(think)
        host.launch(SMALL[place % 3], us, call_name=call)


# Short recordings.


def lags(host: Host, number: int, cured: bool) -> None:
    """The host is done long before the device."""
    host.eager(60, 500.0)


def tokens(host: Host, number: int, cured: bool) -> None:
    """A language model without graphs: every op waits for Python."""
    if cured:
        host.graph([(SMALL[place % 3], 4.0) for place in range(300)])
    else:
        with host.blame():
            small_kernels(host)
    host.launch("void at::native::reduce_kernel<512, 1, ArgMaxOps>(int)", 20.0)
    host.wait("cudaStreamSynchronize")


def one_graph(host: Host, number: int, cured: bool) -> None:
    """A whole training step in a graph."""
    host.graph([(HGEMM, 200.0), (RELU, 50.0)] * 40)
    host.wait("cudaStreamSynchronize")


def compiled(host: Host, number: int, cured: bool) -> None:
    """torch.compile: fused kernels, marks of the compiled regions, nothing wrong."""
    with host.note("Torch-Compiled Region: 0/0"), host.note("## Call CompiledFxGraph fq7x2h3 ##"):
        for place in range(40):
            host.think(6.0)
            host.launch(POINTWISE if place % 2 else FUSED, 300.0, call_name="cuLaunchKernel")
    with host.note("CompiledFunctionBackward"), host.note("## Call CompiledFxGraph fz81kq0 ##"):
        for place in range(40):
            host.think(6.0)
            host.launch(POINTWISE if place % 2 else FUSED, 300.0, call_name="cuLaunchKernel")


# Serving.


def runner(host: Host, number: int, cured: bool) -> None:
    """vLLM: the parts of the model runner are marked, and the host prepares inputs for long."""
    with host.note("gpu_model_runner: preprocess"):
        if not cured:
            with host.blame(), host.frames("vllm/v1/worker/gpu_model_runner.py(1100): _prepare_inputs"):
                host.think(2500.0)
    with host.note("gpu_model_runner: forward"):
        host.graph(DECODE)
    with host.note("gpu_model_runner: sample"):
        host.launch(SMALL[0], 60.0)
        host.item()


def tensor_parallel(host: Host, number: int, cured: bool) -> None:
    """Two exchanges in each layer of a decoding step."""
    layer = [(HGEMM, 30.0), (FLASH, 10.0), (ONE_SHOT, 18.0), (HGEMM, 40.0), (ONE_SHOT, 18.0)]
    host.graph([one for one in layer * 32 if not (cured and one[0] == ONE_SHOT)])
    host.wait("cudaEventSynchronize")


def eager_parallel(host: Host, number: int, cured: bool) -> None:
    for _ in range(20):
        host.eager(3, 150.0)
        if not cured:
            host.launch(REDUCE, 120.0)


def prefill(host: Host, number: int, cured: bool) -> None:
    """A long prompt: nothing but products and attention."""
    for place in range(64):
        host.think(8.0)
        host.launch(FLASH if place % 4 == 0 else HGEMM, 700.0)
    host.wait("cudaStreamSynchronize")


def experts(host: Host, number: int, cured: bool) -> None:
    """Experts on other ranks: tokens go there and come back before anything else can run."""
    for _ in range(8):
        host.eager(3, 300.0)
        if not cured:
            host.launch(ALL_TO_ALL, 350.0)
            host.launch(HGEMM, 200.0)
            host.launch(ALL_TO_ALL, 350.0)


# Training.


def hidden_gathers(host: Host, number: int, cured: bool) -> None:
    """FSDP with prefetch: the exchange runs beside the layers."""
    for place in range(8):
        with host.note(f"FSDP::all_gather (layers.{place})"):
            host.launch(GATHER, 900.0, stream=20)
        host.eager(4, 400.0)


def sums_at_the_end(host: Host, number: int, cured: bool) -> None:
    """DDP with one bucket: everything is summed after the backward pass."""
    host.eager(30, 400.0)
    if not cured:
        end = host.launch(REDUCE, 5000.0, stream=20, after=host.until())
        host.free_us[7] = end
    with host.note("Optimizer.step#AdamW.step"):
        host.launch("void at::native::multi_tensor_apply_kernel<FusedAdam>(int)", 500.0)


def recommender(host: Host, number: int, cured: bool) -> None:
    """Embedding tables on other ranks."""
    host.launch("fbgemm_gpu::split_embedding_forward_kernel<float>", 800.0)
    if not cured:
        host.launch(ALL_TO_ALL, 3000.0)
    host.eager(10, 400.0)
    if not cured:
        host.launch(ALL_TO_ALL, 2500.0)


def offloaded(host: Host, number: int, cured: bool) -> None:
    """Activations go to the host and come back, and nothing hides it."""
    host.eager(15, 400.0)
    if not cured:
        moved(host, TO_HOST, 4000.0)
    host.eager(15, 400.0)


def offloaded_beside(host: Host, number: int, cured: bool) -> None:
    """The same on a stream of its own."""
    moved(host, TO_HOST, 4000.0, stream=30)
    host.eager(30, 400.0)


def swapped(host: Host, number: int, cured: bool) -> None:
    """A cache that goes out and another that comes in."""
    host.eager(10, 400.0)
    if not cured:
        moved(host, TO_HOST, 2500.0)
        moved(host, TO_DEVICE, 2500.0)


def evaluated(host: Host, number: int, cured: bool) -> None:
    """A metric of scikit-learn after each batch."""
    host.eager(20, 400.0)
    host.item()
    if not cured:
        with host.blame(), host.frames("evaluate.py(40): score", f"{PACKAGES}/sklearn/metrics/_ranking.py(300): roc_auc_score"):
            host.think(9000.0)


def saved(host: Host, number: int, cured: bool) -> None:
    """Every step saves."""
    host.eager(20, 400.0)
    if not cured:
        with host.blame(), host.frames("train.py(77): save", f"{PACKAGES}/torch/serialization.py(600): save"):
            host.think(30_000.0)


def zeroed(host: Host, number: int, cured: bool) -> None:
    """Inputs are made on the CPU and brought over."""
    if not cured:
        with host.blame(), host.cpu("aten::randn", "aten::normal_"):
            host.think(15_000.0)
    host.eager(20, 400.0)


def iterated(host: Host, number: int, cured: bool) -> None:
    """A loader that is no DataLoader."""
    if not cured:
        with (
            host.blame(),
            host.frames(
                f"{PACKAGES}/nvidia/dali/plugin/pytorch.py(250): __next__",
                "<built-in method share_outputs of PyCapsule object at 0x7f>",
            ),
        ):
            host.think(12_000.0)
    host.eager(20, 400.0)


def hip(host: Host, number: int, cured: bool) -> None:
    for place in range(40):
        host.think(8.0)
        host.launch(CIJK if place % 5 else RELU, 400.0, call_name="cudaExtModuleLaunchKernel")


def hip_small(host: Host, number: int, cured: bool) -> None:
    if cured:
        host.graph([(SMALL[place % 3], 4.0) for place in range(300)])
    else:
        with host.blame():
            small_kernels(host, call="cudaModuleLaunchKernel")


# Profilers.


def flushed(host: Host, number: int, cured: bool) -> None:
    """The profiler writes its buffers in the middle of some steps."""
    host.eager(20, 400.0)
    host.wait("cudaStreamSynchronize")
    if number % 2:
        begin = host.host_us
        host.think(4000.0)
        host.span("overhead", "Activity Buffer Request", begin, 4000.0)
        host.events[-1]["pid"] = host.events[-1]["tid"] = -1


def lazily(host: Host, number: int, cured: bool) -> None:
    """Kernels are loaded when they are first used, in every step others."""
    host.eager(20, 400.0)
    host.wait("cudaStreamSynchronize")
    if not cured:
        begin = host.host_us
        with host.blame():
            host.think(6000.0)
        host.span("overhead", "Lazy Function Loading", begin, 6000.0)
        host.events[-1]["pid"] = host.events[-1]["tid"] = -1


def rank(**options: object) -> Callable[[], Host]:
    return lambda: Host(rank=0, world_size=8, **options)  # type: ignore[arg-type]


def bare(**options: object) -> Callable[[], Host]:
    return lambda: Host(stack=False, **options)  # type: ignore[arg-type]


LAUNCHES = ("launch_bound", "small_model")
CASES: Sequence[Case] = [
    Case(
        name="one step that the device outlasts",
        build=made(lags, steps=1, lead_in=False, host=lambda: Host(ahead_us=1e6)),
        step_counts=(1,),
    ),
    Case(
        name="two steps behind which the device lags", build=made(lags, steps=2, lead_in=False, host=lambda: Host(ahead_us=1e6))
    ),
    Case(name="one step of small kernels", build=made(tokens, steps=1), first=LAUNCHES, absent=("host_sync", "host_work")),
    Case(
        name="tokens without graphs and marks",
        build=made(tokens, mark="", steps=8, host=bare()),
        first=LAUNCHES,
        step_counts=(8, 9, 7),
        lost=False,
    ),
    Case(name="a whole step in a graph", build=made(one_graph)),
    Case(name="a whole step in a graph without marks", build=made(one_graph, mark="", steps=8, host=bare()), steps=False),
    Case(name="compiled regions are marked", build=made(compiled, host=bare())),
    Case(
        name="compiled regions are the only marks",
        build=made(compiled, mark="", steps=6, host=bare()),
        step_counts=(5, 6, 7),
        first=None,
    ),
    Case(
        name="inputs prepared for long",
        build=made(runner, mark="", steps=6),
        first=("host_work",),
        where=("_prepare_inputs",),
        step_counts=(6, 7),
    ),
    Case(
        name="inputs prepared for long, marks only",
        build=made(runner, mark="", steps=6, host=bare()),
        first=("host_work",),
        where=("preprocess",),
        step_counts=(6, 7),
    ),
    Case(
        name="two exchanges in each layer of a graph",
        build=made(tensor_parallel, host=rank()),
        first=("exposed_comm",),
        says=("fewer GPUs",),
    ),
    Case(name="an exchange in each layer", build=made(eager_parallel, host=rank()), first=("exposed_comm",)),
    Case(name="a long prompt", build=made(prefill, mark="execute_context_1(4096)_generation_0(0)")),
    Case(name="experts on other ranks", build=made(experts, host=rank()), first=("exposed_comm",), lost=False, gain=False),
    Case(name="weights gathered in time", build=made(hidden_gathers, host=rank())),
    Case(
        name="gradients summed at the end", build=made(sums_at_the_end, host=rank()), first=("exposed_comm",), says=("gradients",)
    ),
    Case(
        name="gradients summed at the end, no marks of steps",
        build=made(sums_at_the_end, mark="", steps=7, host=rank()),
        first=("exposed_comm",),
        step_counts=(6, 7),
    ),
    Case(name="embedding tables on other ranks", build=made(recommender, host=rank()), first=("exposed_comm",)),
    Case(name="activations go to the host", build=made(offloaded), first=("exposed_d2h", "exposed_h2d")),
    Case(name="activations go to the host meanwhile", build=made(offloaded_beside)),
    Case(name="a cache is swapped", build=made(swapped), first=("exposed_d2h", "exposed_h2d")),
    Case(name="a metric after each batch", build=made(evaluated), first=("host_work",), where=("score (evaluate.py:40)",)),
    Case(name="every step saves", build=made(saved), first=("host_work",), where=("save (train.py:77)",), says=("less often",)),
    Case(
        name="inputs made on the CPU",
        build=made(zeroed, host=bare()),
        first=("host_work",),
        where=("aten::normal_", "aten::randn"),
    ),
    Case(
        name="a loader of another library",
        build=made(iterated),
        first=("input_starved", "host_work"),
        where=("__next__", "share_outputs"),
    ),
    Case(name="AMD, nothing wrong", build=made(hip, host=lambda: Host(hip=True)), absent=LAUNCHES),
    Case(name="AMD, small kernels", build=made(hip_small, host=lambda: Host(hip=True)), first=LAUNCHES),
    Case(name="the profiler writes its buffers", build=made(flushed, steps=8), absent=("host_work",), mean=True),
    Case(name="kernels are loaded in every step", build=made(lazily, host=bare()), first=("compiling",)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_recordings_as_people_make_them(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)


def test_a_gpu_run_without_its_kernels_is_refused(tmp_path: Path) -> None:
    host = made(lags, steps=3)(False)
    host.events = [event for event in host.events if event["cat"] != "kernel"]
    with pytest.raises(BadFile, match="no GPU work"):
        gpuwise.why([str(host.write(tmp_path / "trace.json"))])
