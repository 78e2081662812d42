"""Calls of the runtime and compilation: named for what they are in steady steps, and no finding where they come once at first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from judging_causes import Case, examine
from making_hosts import Host, loop
from making_traces import RELU

TORCH = "/opt/conda/lib/python3.10/site-packages/torch"
TRITON = "/opt/conda/lib/python3.10/site-packages/triton"
Build = Callable[[bool], Host]
STEP = ("train.py(60): train_step",)


def alone(name: str, us: float, *, note: str = "", frames: tuple[str, ...] = (), first_only: bool = False) -> Build:
    """One call of the runtime (or Python functions, or a mark) in each step, or in the first one alone."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            if not cured and (number <= 1 or not first_only):
                with host.blame(), host.frames(*STEP, *frames):
                    if note:
                        with host.note(note):
                            host.think(us)
                    elif name:
                        host.call(name, us)
                    else:
                        host.think(us)
            host.eager()

        return loop(body, lead_in=not first_only, steps=6)

    return build


def pinning(cured: bool) -> Host:
    """A batch is pinned by hand: an op in which the runtime allocates."""

    def body(host: Host, number: int) -> None:
        host.eager()
        if not cured:
            with host.blame(), host.frames("train.py(44): fetch"), host.cpu("aten::pin_memory", "aten::_pin_memory"):
                host.think(200.0)
                host.call("cudaHostAlloc", 28_000.0)

    return loop(body)


def below_dynamo(cured: bool) -> Host:
    """A compiled model calls a function of the user's: the frames above it belong to Dynamo, but nothing is compiled."""

    def body(host: Host, number: int) -> None:
        with host.frames(*STEP, f"{TORCH}/_dynamo/eval_frame.py(745): compile_wrapper"):
            host.eager()
            if not cured:
                with host.blame(), host.frames("mask.py(5): make_mask"):
                    host.think(30_000.0)
            host.launch(RELU, 50.0)

    return loop(body)


CALLS = [
    Case(
        name="memory freed in each step",
        build=alone("cudaFree", 30_000.0),
        first=("allocator_churn",),
        absent=("host_work", "launch_bound"),
        lost=False,
    ),
    Case(name="pinned memory made in each step", build=alone("cudaHostAlloc", 30_000.0), first=("allocator_churn",), lost=False),
    Case(name="six seconds of the first cudaFree", build=alone("cudaFree", 6_000_000.0, first_only=True), warm_up=1),
    Case(name="two seconds of the first cudaMalloc", build=alone("cudaMalloc", 2_000_000.0, first_only=True), warm_up=1),
    Case(name="modules loaded in the first step", build=alone("cuModuleLoadData", 900_000.0, first_only=True), warm_up=1),
    Case(name="a slow first launch", build=alone("cudaLaunchKernel", 629_000.0, first_only=True), warm_up=1),
    Case(name="modules loaded in each step", build=alone("cuModuleLoadData", 30_000.0), first=("compiling",)),
    Case(name="libraries loaded in each step", build=alone("cuLibraryLoadData", 30_000.0), first=("compiling",)),
    Case(
        name="recompiled in each step",
        build=alone(
            "",
            60_000.0,
            frames=(
                f"{TORCH}/_dynamo/eval_frame.py(745): compile_wrapper",
                f"{TORCH}/_dynamo/convert_frame.py(1344): __call__",
                f"{TORCH}/_inductor/compile_fx.py(1903): compile_fx",
            ),
        ),
        first=("compiling",),
        absent=("host_work",),
    ),
    Case(
        name="Triton compiles in each step",
        build=alone("", 60_000.0, frames=(f"{TRITON}/runtime/jit.py(569): run", f"{TRITON}/compiler/compiler.py(240): compile")),
        first=("compiling",),
    ),
    Case(
        name="marked as compiling",
        build=alone("", 60_000.0, note="_compile.compile_inner (dynamo_timed)"),
        first=("compiling",),
    ),
    Case(
        name="kernels are tuned in each step",
        build=alone("", 60_000.0, note="CachingAutotuner.benchmark_all_configs (dynamo_timed)"),
        first=("compiling",),
    ),
    Case(
        name="compiled code runs below frames of Dynamo",
        build=below_dynamo,
        first=("host_work",),
        absent=("compiling",),
        where=("make_mask (mask.py:5)",),
    ),
    Case(
        name="a batch pinned by hand", build=pinning, first=("allocator_churn", "host_work"), absent=("launch_bound",), lost=False
    ),
]


@pytest.mark.parametrize("case", CALLS, ids=lambda case: case.name)
def test_calls_and_compilation_are_named_for_what_they_are(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)
