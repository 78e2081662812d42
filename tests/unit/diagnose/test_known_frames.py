"""Which function is named for idle time: the user's own, however its file is called, and no library or module.

Profilers cut from file names what lies on Python's path, so a library appears as `PIL/Image.py`, the standard library as
`json/encoder.py` and a script as `train.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import gpuwise
from judging_causes import Case, examine
from making_hosts import Host, loop
from making_traces import RELU

LONG = 30_000.0
Act = Callable[[Host, int], None]


def within(*frames: str, us: float = LONG) -> Act:
    """Time in the innermost of these functions."""

    def act(host: Host, number: int) -> None:
        with host.blame(), host.frames(*frames):
            host.think(us)

    return act


def program(
    act: Act, *, steps: int = 6, frames: tuple[str, ...] = ("train.py(210): <module>", "train.py(140): main")
) -> Callable[[bool], Host]:
    """Steps after which something is done."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            host.eager()
            if not cured:
                act(host, number)

        return loop(body, steps=steps, frames=frames)

    return build


def named(name: str, where: tuple[str, ...], *frames: str) -> Case:
    """Idle time of one function of which the name is known."""
    return Case(
        name=name, build=program(within(*frames)), first=("host_work",), absent=("launch_bound", "host_sync"), where=where
    )


def recursion(host: Host, number: int) -> None:
    """A copy of nested objects: the standard library calls itself."""
    with host.blame(), host.frames("ema.py(20): update"):
        for _ in range(30):
            with host.frames("copy.py(128): deepcopy", "copy.py(227): _deepcopy_dict", "copy.py(128): deepcopy"):
                host.think(1000.0)


def cluttered(host: Host, number: int) -> None:
    """Hundreds of tiny calls inside, of which none takes long."""
    with host.blame(), host.frames("train.py(60): train_step", "schema.py(18): validate"):
        for _ in range(100):
            host.think(290.0)
            with host.frames("typing.py(359): inner", "<built-in function isinstance>"):
                host.think(8.0)


def two_in_one_gap(host: Host, number: int) -> None:
    with host.blame(), host.frames("train.py(60): train_step"):
        with host.frames("metrics.py(12): update"):
            host.think(8000.0)
        with host.frames("report.py(30): draw"):
            host.think(22_000.0)


def called_by_many(host: Host, number: int) -> None:
    """The same function from two places: it is the one, not its callers."""
    with host.blame():
        for caller in ("train.py(70): before", "train.py(80): after"):
            with host.frames(caller, "text.py(5): tokenize"):
                host.think(LONG / 2)


def working_and_stalling(host: Host, number: int) -> None:
    """A function that launches most of the time is not the one that stalls."""
    with host.frames("train.py(60): train_step"):
        host.eager(10)
        with host.blame(), host.frames("text.py(5): tokenize"):
            host.think(LONG)
        host.eager(10)


def in_the_middle(host: Host, number: int) -> None:
    """One launch of 629 ms in one step of six."""
    if number == 4:
        with host.blame():
            host.launch(RELU, 20.0, call=629_000.0)


def annotated(host: Host, number: int) -> None:
    """An annotation around a function: the function is the inner one."""
    with host.blame(), host.note("prepare inputs"), host.frames("inputs.py(9): prepare"):
        host.think(LONG)


def function_around(host: Host, number: int) -> None:
    """A function around an annotation: the annotation is the inner one, the function is the place."""
    with host.blame(), host.frames("inputs.py(9): prepare"), host.note("decode jpeg"):
        host.think(LONG)


FRAMES = [
    named("an image library", ("augment (transforms.py:33)",), "transforms.py(33): augment", "PIL/Image.py(2100): resize"),
    named(
        "a table library",
        ("features (features.py:71)",),
        "features.py(71): features",
        "pandas/core/frame.py(9000): merge",
        "pandas/core/reshape/merge.py(146): merge",
    ),
    named(
        "an array library",
        ("crop (data/images.py:14)", "crop (images.py:14)"),
        "data/images.py(14): crop",
        "numpy/lib/function_base.py(5100): insert",
    ),
    named("the standard library", ("dump (report.py:8)",), "report.py(8): dump", "json/encoder.py(199): encode"),
    named(
        "a trainer above and below",
        ("compute_metrics (metrics.py:44)",),
        "transformers/trainer.py(3100): evaluate",
        "metrics.py(44): compute_metrics",
        "evaluate/module.py(430): compute",
        "sklearn/metrics/_classification.py(1100): f1_score",
    ),
    named(
        "libraries of Debian",
        ("score (eval.py:6)",),
        "eval.py(6): score",
        "/usr/lib/python3/dist-packages/scipy/stats/_stats.py(90): rank",
    ),
    named("a folder that sounds like torch", ("prepare (prepare.py:12)",), "/srv/me/torch_project/prepare.py(12): prepare"),
    named(
        "a package that sounds like torch",
        ("prepare (torch_tools/inputs.py:12)", "prepare (inputs.py:12)"),
        "torch_tools/inputs.py(12): prepare",
        "torch/functional.py(380): einsum",
    ),
    named("Windows", ("prepare (inputs.py:12)",), r"C:\Users\me\project\inputs.py(12): prepare"),
    named("a notebook", ("prepare (",), "/var/run/ipykernel_4242/1234567890.py(12): prepare"),
    named("an old notebook", ("prepare (",), "<ipython-input-5-1a2b3c4d>(12): prepare"),
    named("a comprehension", ("train.py",), "train.py(66): batches", "train.py(71): <listcomp>"),
    named(
        "an import inside of a step",
        ("plot (report.py:90)",),
        "report.py(90): plot",
        "<frozen importlib._bootstrap>(1027): _find_and_load",
        "<frozen importlib._bootstrap_external>(883): exec_module",
    ),
    Case(name="tiny calls inside", build=program(cluttered), first=("host_work",), where=("validate (schema.py:18)",)),
    named(
        "a method of a built-in type",
        ("arrange (batches.py:27)",),
        "batches.py(27): arrange",
        "<built-in method sort of list object at 0x7fcc833ce5c0>",
    ),
    Case(name="recursion", build=program(recursion), first=("host_work",), where=("update (ema.py:20)",)),
    Case(
        name="two in one gap",
        build=program(two_in_one_gap),
        first=("host_work",),
        where=("draw (report.py:30)",),
        lost=False,
        gain=False,
    ),
    Case(name="called by many", build=program(called_by_many), first=("host_work",), where=("tokenize (text.py:5)",)),
    Case(
        name="working and stalling",
        build=program(working_and_stalling),
        first=("host_work",),
        where=("tokenize (text.py:5)",),
        gain=False,
    ),
    Case(
        name="one long launch in the middle",
        build=program(in_the_middle, frames=()),
        first=("host_work",),
        absent=("launch_bound",),
        where=("cudaLaunchKernel",),
    ),
    Case(
        name="an annotation around a function", build=program(annotated), first=("host_work",), where=("prepare (inputs.py:9)",)
    ),
    Case(
        name="a function around an annotation",
        build=program(function_around),
        first=("host_work",),
        where=("prepare (inputs.py:9)", "decode jpeg"),
    ),
]


@pytest.mark.parametrize("case", FRAMES, ids=lambda case: case.name)
def test_the_function_that_holds_the_device_up_is_named(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)


def test_what_the_function_takes_is_said_in_the_text(tmp_path: Path) -> None:
    """One line must be enough: which function, where, and how long a step."""
    host = program(within("image_processing.py(120): preprocess"))(False)
    text = " ".join(str(gpuwise.why([str(host.write(tmp_path / "made.json"))])).split())
    assert "preprocess" in text
    assert "image_processing.py:120" in text
    assert any(f"{lost} ms" in text for lost in ("21.5", "21.50", "22", "21")), text
