"""Steps are found where they are: by annotations before repetition, and never a layer for a step."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import gpuwise
from judging_causes import Case, examine
from making_hosts import Host, loop
from making_traces import HGEMM, RELU

NORM = "void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*)"
ATTENTION = "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>(Flash_fwd_params)"
SILU = "void vllm::act_and_mul_kernel<c10::BFloat16>(c10::BFloat16*)"
EMBEDDING = "void at::native::indexSelectSmallIndex<c10::BFloat16>(int)"
SAMPLE = "void at::native::reduce_kernel<512, 1, ArgMaxOps>(int)"
LAYER = [(NORM, 4.0), (HGEMM, 20.0), (ATTENTION, 12.0), (HGEMM, 14.0), (SILU, 5.0), (HGEMM, 25.0)]
TAIL = [(NORM, 4.0), ("nvjet_hsh_128x64_NT", 150.0), (SAMPLE, 20.0)]
DECODE = [(EMBEDDING, 5.0), *LAYER * 36, *TAIL]
LAYERS = LAYER * 36  # nothing but the host tells where a step begins
Build = Callable[[bool], Host]
Kernels = Sequence[tuple[str, float]]


def decoding(
    mark: str = "", *, kernels: Kernels = DECODE, steps: int = 6, gap_us: float = 150.0, begun: int = 0, eager: bool = False
) -> Build:
    """A language model that makes a token a step by a CUDA graph, 36 equal layers in each. The recording begins `begun` kernels
    after the beginning of a step."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            host.think(gap_us)
            chosen = kernels if number else kernels[begun:]
            if eager:
                for name, us in chosen:
                    host.think(2.0)
                    host.launch(name, us)
            else:
                host.graph(chosen)
            host.wait("cudaEventSynchronize")

        return loop(body, steps=steps, mark=mark, frames=("engine.py(20): run",), host=Host(stack=False))

    return build


def lengths(*kernels: int, mark: str = "ProfilerStep#{}", lead_in: bool = False) -> Build:
    """Steps with so many kernels of a millisecond each."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            host.eager(kernels[number - 1] if number else kernels[0], 1000.0)
            host.wait("cudaEventSynchronize")

        return loop(body, steps=len(kernels), mark=mark, lead_in=lead_in)

    return build


def nested(outer: str, inner: str, times: int = 4) -> Build:
    """A step of several parts that are marked as well."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            for part in range(times):
                with host.note(inner.format(number * times + part)):
                    host.eager(10, 500.0)
            host.launch(RELU, 300.0)

        return loop(body, mark=outer)

    return build


def in_parts(cured: bool) -> Host:
    """No step is marked, but forward, backward and optimizer are: the step goes from one forward to the next."""

    def body(host: Host, number: int) -> None:
        for part, count in (("forward", 8), ("backward", 16), ("optimizer", 4)):
            with host.note(part):
                host.eager(count, 500.0)
        host.think(300.0)

    return loop(body, mark="", steps=8)


def partly_marked(cured: bool) -> Host:
    """The mark covers the model only; the scheduler between two of them belongs to the step too."""

    def body(host: Host, number: int) -> None:
        with host.note("execute_model"):
            host.graph(DECODE)
            host.wait("cudaEventSynchronize")
        if not cured:
            with host.blame(), host.frames("scheduler.py(300): schedule"):
                host.think(6000.0)

    return loop(body, mark="", frames=("engine.py(20): run",), steps=7, lead_in=False)


def loader_outside(cured: bool) -> Host:
    """The mark is around the training, and the batch is fetched before it."""

    def body(host: Host, number: int) -> None:
        if not cured:
            with host.blame(), host.note("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
                host.think(30_000.0)
        with host.note(f"step[{number}]"):
            host.eager()

    return loop(body, mark="", steps=7, lead_in=False)


def marked_layers(cured: bool) -> Host:
    """Each layer is annotated, the step is not."""

    def body(host: Host, number: int) -> None:
        host.launch(EMBEDDING, 5.0)
        for layer in range(36):
            with host.note(f"layer {layer}"):
                host.graph(LAYER)
        host.graph(TAIL)
        host.wait("cudaEventSynchronize")
        host.think(400.0)

    return loop(body, mark="", steps=8, lead_in=False, host=Host(stack=False))


def module_frames(cured: bool) -> Host:
    """Each layer is a module of the stack: frames, not steps."""

    def body(host: Host, number: int) -> None:
        host.launch(EMBEDDING, 5.0)
        for layer in range(36):
            with host.frames(f"nn.Module: DecoderLayer_{layer}"):
                host.graph(LAYER)
        host.graph(TAIL)
        host.wait("cudaEventSynchronize")

    return loop(body, mark="", steps=8, lead_in=False)


def echoed(cured: bool) -> Host:
    """The marks of the steps are on the device as well."""
    host = lengths(20, 20, 20, 20, 20)(cured)
    for number, (begin, end) in enumerate(host.steps, start=1):
        host.span("gpu_user_annotation", f"ProfilerStep#{number}", begin + 40.0, end - begin - 30.0, device=0, stream=7)
    return host


def prefill_first(cured: bool) -> Host:
    """A prompt is read, then eight tokens are made."""

    def body(host: Host, number: int) -> None:
        host.think(150.0)
        host.graph([(name, us * 20) for name, us in DECODE] if number == 1 else DECODE)
        host.wait("cudaEventSynchronize")

    def mark(number: int) -> str:
        return "step[EXTEND bs=1 toks=512]" if number == 1 else "step[DECODE bs=1]"

    return loop(body, mark=mark, steps=9, lead_in=False, host=Host(stack=False))


def alike(name: str, build: Build, **truth: object) -> Case:
    """A case about steps alone."""
    return Case(name=name, build=build, first=None, **truth)  # type: ignore[arg-type]


STEPS = [
    *(
        alike(f"marked as {mark}", decoding(mark, kernels=LAYERS))
        for mark in (
            "ProfilerStep#{}",
            "step[{}]",
            "iteration {}",
            "Iteration {}",
            "train_step",
            "execute_model",
            "step[DECODE bs=1]",
            "step[DECODE bs={}]",
            "step {}",
        )
    ),
    *(
        alike(f"NVTX range {mark}", decoding(mark, kernels=LAYERS), nsys=True)
        for mark in ("step[{}]", "iteration {}", "execute_model", "ProfilerStep#{}")
    ),
    alike("36 layers without marks", decoding(steps=8), step_counts=(7, 8, 9)),
    alike("36 layers without marks, begun within a step", decoding(steps=8, begun=50), step_counts=(7, 8, 9)),
    alike("36 layers launched one by one", decoding(steps=5, begun=50, eager=True), step_counts=(4, 5, 6)),
    alike("36 layers and nothing else but a gap", decoding(kernels=LAYERS, steps=8, gap_us=900.0), step_counts=(7, 8, 9)),
    alike("36 layers without marks from nsys", decoding(steps=8), step_counts=(7, 8, 9), nsys=True),
    alike("layers are annotated and steps are not", marked_layers, step_counts=(7, 8)),
    alike("layers are modules", module_frames, step_counts=(7, 8)),
    alike("three steps of which the middle one is long", lengths(143, 404, 137), mean=True),
    alike("three steps of which the last one is the shortest", lengths(143, 404, 125), mean=True),
    alike("three iterations of which the last one is the shortest", lengths(143, 404, 125, mark="step[{}]"), mean=True),
    alike("three steps of which the last one is long", lengths(143, 137, 404), mean=True),
    alike("two steps", lengths(143, 137), mean=True),
    alike("one step", lengths(100)),
    alike("the first step is warm-up", lengths(300, 50, 50, 50, 50), mean=True, warm_up=1),
    alike("every third step is long", lengths(20, 20, 60, 20, 20, 60, 20, 20, 60), mean=True),
    alike("three marked iterations", lengths(143, 404, 137, mark="iteration {}"), mean=True),
    alike("iterations inside of ProfilerSteps", nested("ProfilerStep#{}", "iteration {}")),
    alike("train_step inside of iterations", nested("iteration {}", "train_step", times=1)),
    alike("micro-batches inside of a train_step", nested("train_step", "micro_batch {}")),
    alike("forward, backward and optimizer are marked", in_parts, step_counts=(7, 8, 9)),
    alike("steps are marked on the device too", echoed, mean=True),
    alike("a prompt and then tokens", prefill_first),
    Case(
        name="the loader is outside of the mark",
        build=loader_outside,
        first=("input_starved",),
        absent=("launch_bound", "host_work"),
        step_counts=(6, 7),
        warm_up=1,
    ),
    Case(
        name="the mark covers a part of the step",
        build=partly_marked,
        first=("host_work",),
        absent=("host_sync", "launch_bound"),
        where=("schedule (scheduler.py:300)",),
        step_counts=(6, 7),
        warm_up=1,
    ),
]


@pytest.mark.parametrize("case", STEPS, ids=lambda case: case.name)
def test_steps_are_found_where_they_are(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)


def test_two_runs_are_compared_by_their_median_and_by_their_mean(tmp_path: Path) -> None:
    """A step of three is long in the first run, so that it is slower on average than its median step is."""
    slow, fast = lengths(180, 404, 137)(False), lengths(143, 141, 137)(False)
    answer = gpuwise.why([str(slow.write(tmp_path / "slow.json"))], compare=str(fast.write(tmp_path / "fast.json")))
    told = [float(number) for number in re.findall(r"\d+\.\d+", str(answer))]
    for what, ratio in (("median", 180 / 141), ("mean", 721 / 421)):
        assert any(abs(number - ratio) < 0.015 for number in told), f"the ratio of the {what} steps, {ratio:.2f}, is not told"
