"""What other threads do meanwhile does not explain idle time, and a copy that blocks does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from judging_causes import Case, examine
from making_hosts import Host, loop
from making_traces import HGEMM

LONG = 8000.0
Act = Callable[[Host], None]


def beside(act: Act) -> Callable[[bool], Host]:
    """Work, a wait, and then a function of the user's, while another thread does something."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            host.eager(30, 300.0)
            host.wait("cudaDeviceSynchronize")
            if not cured:
                with host.blame(), host.frames("aug.py(31): jitter"):
                    start = host.host_us
                    host.think(LONG)
                    with host.elsewhere(99, join=False):
                        host.host_us = start + 100.0
                        act(host)

        return loop(body, steps=6)

    return build


def loads(host: Host) -> None:
    with host.note("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
        host.think(LONG - 300.0)


def pins(host: Host) -> None:
    host.call("cudaHostAlloc", LONG - 300.0)


def compiles(host: Host) -> None:
    with host.frames("triton/compiler/compiler.py(226): compile"):
        host.think(LONG - 300.0)


def waits(host: Host) -> None:
    for _ in range(15):
        host.call("cudaStreamSynchronize", 390.0)
        host.think(100.0)


def reading(pause_us: float) -> Callable[[bool], Host]:
    """Values are read by copies that block: PyTorch's `.item()` waits inside the copy, and hardly in the call behind it."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            for _ in range(20):
                for _ in range(3):
                    host.launch(HGEMM, 100.0)
                if not cured:
                    begun = host.host_us
                    end = host._issue(
                        "gpu_memcpy", "Memcpy", "Memcpy DtoH (Device -> Pageable)", 2.0, "cudaMemcpyAsync", 7, 5.0, bytes=4
                    )
                    host.events[-2]["dur"] = end + 5.0 - begun
                    host.host_us = end + 5.0
                    host.call("cudaStreamSynchronize", 3.0)
                    with host.blame():
                        host.think(pause_us)

        return loop(body, steps=6, host=Host(stack=False))

    return build


def running_compiled(frame: str) -> Callable[[bool], Host]:
    """Compiled code that runs is no compilation, though its frames lie in the compiler's files."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            with host.frames(frame):
                host.eager(60, 8.0, think_us=40.0)

        return loop(body, steps=6)

    return build


CASES = [
    Case(name=name, build=beside(act), first=("host_work",), where=("jitter (aug.py:31)",), gain=False, lost=False)
    for name, act in (
        ("a loader of another thread", loads),
        ("memory pinned by another thread", pins),
        ("a compiler on another thread", compiles),
        ("another thread waits again and again", waits),
    )
] + [
    Case(
        name=f"values read by copies, {pause:g} µs of Python", build=reading(pause), first=("host_sync",), lost=False, gain=False
    )
    for pause in (40.0, 100.0)
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_threads_and_copies_are_told_apart(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)


@pytest.mark.parametrize(
    "frame",
    [
        "torch/_inductor/compile_fx.py(1886): run",
        "torch/_inductor/codecache.py(1131): __call__",
        "triton/runtime/jit.py(450): run",
    ],
)
def test_compiled_code_that_runs_is_no_compilation(frame: str, tmp_path: Path) -> None:
    case = Case(
        name=frame,
        build=running_compiled(frame),
        first=("launch_bound", "small_model"),
        absent=("compiling",),
        gain=False,
        lost=False,
    )
    examine(case, tmp_path)
