"""Runs without a GPU and exports of Nsight Systems: the causes are the same, and less is recorded of them.

Without a GPU the ops of the host are the work, 20 of a millisecond each in a step, and a stall is time in which no op runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from judging_causes import Case, examine
from making_hosts import Host, loop

MAIN = ("train.py(210): <module>", "train.py(140): main")
STEP = "train.py(60): train_step"
LONG = 30_000.0
Act = Callable[[Host, int], None]
Build = Callable[[bool], Host]


def computing(host: Host, count: int = 20, us: float = 1000.0, gap_us: float = 15.0) -> None:
    """Ops that compute on the host."""
    for place in range(count):
        host.think(gap_us)
        with host.cpu("aten::linear", "aten::addmm") if place % 4 else host.cpu("aten::layer_norm", "aten::native_layer_norm"):
            host.think(us)


def on_cpu(act: Act, *, steps: int = 6, stack: bool = True) -> Build:
    """A training on a CPU after whose steps something is done."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            with host.frames(STEP):
                computing(host)
                if not cured:
                    with host.blame():
                        act(host, number)

        return loop(body, steps=steps, host=Host(stack=stack, extra={"deviceProperties": []}))

    return build


def within(*frames: str, us: float = LONG, every: int = 1) -> Act:
    """Time in the innermost of these functions, in one step of so many."""

    def act(host: Host, number: int) -> None:
        if number % every == 0:
            with host.frames(*frames):
                host.think(us)

    return act


def noted(name: str) -> Act:
    def act(host: Host, number: int) -> None:
        with host.note(name):
            host.think(LONG)

    return act


def small_ops(cured: bool) -> Host:
    """200 ops of 6 µs with 14 µs of Python between two of them, all in one function."""

    def body(host: Host, number: int) -> None:
        with host.frames(STEP, "model.py(70): forward"):
            if cured:
                computing(host, 4, 600.0)
            else:
                computing(host, 200, 6.0, 14.0)

    return loop(body, host=Host(extra={"deviceProperties": []}))


def loading(cured: bool) -> Host:
    def body(host: Host, number: int) -> None:
        if not cured:
            with (
                host.blame(),
                host.note("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
                host.frames("torch/utils/data/_utils/fetch.py(52): fetch", "dataset.py(31): __getitem__"),
            ):
                host.think(LONG)
        with host.frames(STEP):
            computing(host)

    return loop(body, host=Host(extra={"deviceProperties": []}))


CPU = [
    Case(
        name="images prepared in the loop",
        build=on_cpu(within("image_processing.py(120): preprocess", "PIL/Image.py(2100): resize")),
        first=("host_work",),
        absent=("launch_bound",),
        where=("preprocess (image_processing.py:120)",),
    ),
    Case(
        name="a log line in each step",
        build=on_cpu(within("train.py(90): log", "json/__init__.py(120): dump", us=12_000.0)),
        first=("host_work",),
        absent=("launch_bound",),
        where=("log (train.py:90)",),
    ),
    Case(
        name="a checkpoint every third step",
        build=on_cpu(within("train.py(180): save", "torch/serialization.py(850): save", us=90_000.0, every=3), steps=9),
        first=("host_work",),
        absent=("launch_bound",),
        where=("save (train.py:180)",),
    ),
    Case(
        name="recompiled in each step",
        build=on_cpu(
            within(
                "torch/_dynamo/eval_frame.py(745): compile_wrapper",
                "torch/_dynamo/convert_frame.py(1344): __call__",
                "torch/_inductor/compile_fx.py(1903): compile_fx",
                us=200_000.0,
            )
        ),
        first=("compiling",),
        absent=("launch_bound", "host_work"),
    ),
    Case(
        name="garbage is collected",
        build=on_cpu(within(us=60_000.0, every=2)),
        first=("host_work",),
        absent=("launch_bound",),
        where=("train_step (train.py:60)", ""),
    ),
    Case(
        name="nothing was recorded",
        build=on_cpu(within(), stack=False),
        first=("host_work",),
        absent=("launch_bound",),
        where=("",),
        confidence="low",
        says=("recorded", "with_stack=True"),
    ),
    Case(
        name="an annotation",
        build=on_cpu(noted("tokenize"), stack=False),
        first=("host_work",),
        absent=("launch_bound",),
        where=("tokenize",),
    ),
    Case(name="small ops", build=small_ops, first=("launch_bound",), absent=("host_work",), gain=False),
    Case(
        name="a loader without workers",
        build=loading,
        first=("input_starved", "single_process_loader"),
        absent=("host_work", "launch_bound"),
    ),
    Case(name="nothing wrong", build=on_cpu(within(us=0.0)), absent=("host_work", "launch_bound")),
]


@pytest.mark.parametrize("case", CPU, ids=lambda case: case.name)
def test_a_run_without_a_gpu_is_understood(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)


def on_gpu(act: Act) -> Build:
    """A training on a GPU, to be written as Nsight Systems exports it."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            host.eager()
            if not cured:
                with host.blame():
                    act(host, number)

        return loop(body, host=Host(stack=False), mark="iteration {}")

    return build


def waited(host: Host, number: int) -> None:
    host.wait("cudaStreamSynchronize")
    noted("decode")(host, number)


def called(name: str) -> Act:
    return lambda host, number: host.call(name, LONG)


NSYS = [
    Case(
        name="an NVTX range", build=on_gpu(noted("tokenize")), first=("host_work",), absent=("launch_bound",), where=("tokenize",)
    ),
    Case(
        name="a wait and then an NVTX range",
        build=on_gpu(waited),
        first=("host_work",),
        absent=("launch_bound", "host_sync"),
        where=("decode",),
    ),
    Case(
        name="nothing was recorded",
        build=on_gpu(within()),
        first=("host_work",),
        absent=("launch_bound", "host_sync"),
        where=("",),
        confidence="low",
    ),
    Case(
        name="memory freed in each step",
        build=on_gpu(called("cudaFree")),
        first=("allocator_churn",),
        absent=("host_work",),
        lost=False,
    ),
    Case(name="modules loaded in each step", build=on_gpu(called("cuModuleLoadData")), first=("compiling",)),
    Case(name="nothing wrong", build=on_gpu(within(us=100.0)), absent=("host_work", "launch_bound")),
]


@pytest.mark.parametrize("case", NSYS, ids=lambda case: case.name)
def test_an_export_of_nsight_systems_is_understood(case: Case, tmp_path: Path) -> None:
    examine(replace(case, nsys=True), tmp_path)
