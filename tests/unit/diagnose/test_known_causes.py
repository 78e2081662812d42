"""Idle time is charged to what the host did meanwhile: made runs with one known cause each.

A step has 10 ms of kernels, and the host runs up to 8 ms ahead, so what takes the host 30 ms leaves the device idle for 22.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from judging_causes import Case, examine
from making_hosts import Host, loop
from making_traces import RELU

MAIN = ("train.py(210): <module>", "train.py(140): main")
PACKAGES = "/opt/conda/lib/python3.10/site-packages"
LONG = 30_000.0
Act = Callable[[Host], None]


def stalled(
    act: Act, *, every: int = 1, steps: int = 6, first: bool = False, host: Callable[[], Host] = Host
) -> Callable[[bool], Host]:
    """Steps in which the host does something that launches nothing, after the launches or before them."""

    def build(cured: bool) -> Host:
        def body(made: Host, number: int) -> None:
            if not first:
                made.eager()
            if not cured and number % every == 0:
                with made.blame():
                    act(made)
            if first:
                made.eager()

        return loop(body, steps=steps, host=host())

    return build


def function(*frames: str, us: float = LONG) -> Act:
    """Time in Python functions, spent in the innermost."""

    def act(host: Host) -> None:
        with host.frames(*frames):
            host.think(us)

    return act


def without_stack() -> Host:
    return Host(stack=False)


def op(*names: str, us: float = LONG) -> Act:
    def act(host: Host) -> None:
        with host.cpu(*names):
            host.think(us)

    return act


def note(name: str, us: float = LONG) -> Act:
    def act(host: Host) -> None:
        with host.note(name):
            host.think(us)

    return act


def slow_launch(host: Host) -> None:
    host.launch(RELU, 20.0, call=LONG)


def with_small_ops(host: Host) -> None:
    with host.frames("train.py(60): train_step", "collate.py(31): pad_batch"):
        for _ in range(60):
            host.think(400.0)
            with host.cpu("aten::cat"):
                host.think(100.0)


def in_pieces(host: Host) -> None:
    """Called 40 times for a little less than a millisecond each: the function that spans them is the caller."""
    with host.frames("train.py(60): train_step", "metrics.py(12): update"):
        for _ in range(40):
            with host.frames("metrics.py(40): one_label"):
                host.think(750.0)


def sync_then(frames: Sequence[str], us: float) -> Act:
    def act(host: Host) -> None:
        host.wait("cudaStreamSynchronize")
        with host.frames(*frames):
            host.think(us)

    return act


def with_other_threads(host: Host) -> None:
    """While the main thread prepares, a thread pins memory and another one writes logs: neither holds the device up."""
    with (
        host.elsewhere(91, join=False),
        host.frames("threading.py(973): _bootstrap", f"{PACKAGES}/torch/utils/data/_utils/pin_memory.py(49): _pin_memory_loop"),
    ):
        host.think(LONG + 5000.0)
    with host.elsewhere(92, join=False), host.frames("threading.py(973): _bootstrap", "writer.py(20): write_forever"):
        host.think(LONG + 5000.0)
    function("train.py(60): train_step", "image_processing.py(120): preprocess")(host)


def built_in(host: Host) -> None:
    with host.frames("train.py(60): train_step", "train.py(77): throttle", "<built-in function sleep>"):
        host.think(LONG)


def saving(host: Host) -> None:
    with host.frames(
        "train.py(200): save_checkpoint", "torch/serialization.py(850): save", "torch/serialization.py(1100): _save"
    ):
        host.think(120_000.0)


IDLE = [
    Case(
        name="a function of the user's",
        build=stalled(function("train.py(60): train_step", "image_processing.py(120): preprocess")),
        first=("host_work",),
        absent=("launch_bound", "host_sync"),
        where=("preprocess (image_processing.py:120)",),
    ),
    Case(
        name="a function of the user's before the launches",
        build=stalled(function("image_processing.py(120): preprocess"), first=True),
        first=("host_work",),
        absent=("launch_bound", "host_sync"),
        where=("preprocess (image_processing.py:120)",),
    ),
    Case(
        name="the user's function comes before the library that it calls",
        build=stalled(
            function("train.py(60): train_step", "transforms.py(33): augment", f"{PACKAGES}/PIL/Image.py(2100): resize")
        ),
        first=("host_work",),
        absent=("launch_bound",),
        where=("augment (transforms.py:33)",),
    ),
    Case(
        name="the user's function below the library's",
        build=stalled(
            function(
                f"{PACKAGES}/lightning/pytorch/loops/fit_loop.py(210): advance",
                "nn.Module: Encoder_0",
                f"{PACKAGES}/torch/nn/modules/module.py(1501): _call_impl",
                "model.py(88): forward",
                "model.py(131): build_mask",
            )
        ),
        first=("host_work",),
        absent=("launch_bound",),
        where=("build_mask (model.py:131)",),
    ),
    Case(
        name="a module is no place",
        build=stalled(function("train.py(60): train_step", "nn.Module: Tokenizer_0")),
        first=("host_work",),
        where=("train_step (train.py:60)",),
    ),
    Case(
        name="a function with a whole path",
        build=stalled(function("/srv/me/project/data/image_processing.py(120): preprocess")),
        first=("host_work",),
        where=("preprocess (image_processing.py:120)", "preprocess (data/image_processing.py:120)"),
    ),
    Case(
        name="a built-in function belongs to who calls it",
        build=stalled(built_in),
        first=("host_work",),
        where=("throttle (train.py:77)", "sleep"),
    ),
    Case(
        name="only library functions were recorded",
        build=lambda cured: loop_of_library(cured),
        first=("host_work",),
        where=("fetch (", "_call_impl", "download"),
    ),
    Case(
        name="many small ops inside of a function",
        build=stalled(with_small_ops),
        first=("host_work",),
        absent=("launch_bound",),
        where=("pad_batch (collate.py:31)",),
    ),
    Case(
        name="a function called in small pieces",
        build=stalled(in_pieces),
        first=("host_work",),
        absent=("launch_bound",),
        where=("update (metrics.py:12)", "one_label (metrics.py:40)"),
    ),
    Case(
        name="other threads are busy meanwhile",
        build=stalled(with_other_threads),
        first=("host_work",),
        where=("preprocess (image_processing.py:120)",),
    ),
    Case(
        name="an op on the CPU without stacks",
        build=stalled(op("aten::randn"), host=without_stack),
        first=("host_work",),
        absent=("launch_bound",),
        where=("aten::randn",),
    ),
    Case(
        name="an op inside of an op",
        build=stalled(op("aten::randn", "aten::normal_"), host=without_stack),
        first=("host_work",),
        where=("aten::randn", "aten::normal_"),
    ),
    Case(
        name="an op inside of a function",
        build=stalled(lambda host: in_function(host)),
        first=("host_work",),
        where=("make_noise (sampler.py:44)", "aten::randn"),
    ),
    Case(
        name="one long launch in each step",
        build=stalled(slow_launch, host=without_stack),
        first=("host_work",),
        absent=("launch_bound",),
        where=("cudaLaunchKernel",),
    ),
    Case(
        name="an annotation without stacks",
        build=stalled(note("tokenize"), host=without_stack),
        first=("host_work",),
        absent=("launch_bound",),
        where=("tokenize",),
    ),
    Case(
        name="nothing was recorded",
        build=stalled(lambda host: host.think(LONG), host=without_stack),
        first=("host_work",),
        absent=("launch_bound", "host_sync"),
        where=("",),
        confidence="low",
        says=("recorded", "with_stack=True"),
    ),
    Case(
        name="nothing but the function around the whole step",
        build=stalled(lambda host: host.think(LONG)),
        first=("host_work",),
        absent=("launch_bound",),
        where=("main (train.py:140)", ""),
    ),
    Case(
        name="a wait and then a long function",
        build=stalled(sync_then(("train.py(60): train_step", "evaluate.py(15): score"), 100_000.0)),
        first=("host_work",),
        absent=("host_sync", "launch_bound"),
        where=("score (evaluate.py:15)",),
    ),
    Case(
        name="a wait and then a long op",
        build=stalled(lambda host: sync_then_op(host), host=without_stack),
        first=("host_work",),
        absent=("host_sync", "launch_bound"),
        where=("aten::multinomial",),
    ),
    Case(
        name="a wait and then nothing recorded for long",
        build=stalled(sync_then((), 100_000.0), host=without_stack),
        first=("host_work",),
        absent=("host_sync", "launch_bound"),
        where=("",),
        confidence="low",
    ),
    Case(
        name="a checkpoint every third step",
        build=stalled(saving, every=3, steps=9),
        first=("host_work",),
        absent=("launch_bound",),
        where=("save_checkpoint (train.py:200)",),
    ),
]


def loop_of_library(cured: bool) -> Host:
    def body(host: Host, number: int) -> None:
        host.eager()
        if not cured:
            with host.blame(), host.frames(f"{PACKAGES}/fsspec/asyn.py(91): fetch"):
                host.think(LONG)

    return loop(body, frames=(f"{PACKAGES}/torch/nn/modules/module.py(1501): _call_impl",))


def in_function(host: Host) -> None:
    with host.frames("train.py(60): train_step", "sampler.py(44): make_noise"):
        op("aten::randn")(host)


def sync_then_op(host: Host) -> None:
    host.wait("cudaStreamSynchronize")
    op("aten::multinomial", us=60_000.0)(host)


@pytest.mark.parametrize("case", IDLE, ids=lambda case: case.name)
def test_idle_time_is_charged_to_its_cause(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)
