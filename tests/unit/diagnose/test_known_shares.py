"""Several GPUs of one program without collectives, stalls of single steps, and marks around marks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import gpuwise
from judging_causes import Case, examine
from making_hosts import Host, loop
from making_traces import GPU, HGEMM

PACKAGES = "/opt/conda/lib/python3.10/site-packages"
MORI = (
    "void mori::moe::EpDispatchIntraNodeKernel<__hip_bfloat16>(mori::moe::EpDispatchCombineArgs)",
    "EpCombineIntraNodeKernel_bf16",
)
GEMM_KERNEL = "Cijk_Ailk_Bljk_BBS_BH_MT128x128x32_MI16x16x16x1"
Build = Callable[[bool], Host]


def in_turn(gpus: int, *, wait: bool) -> Build:
    """Layers spread over GPUs, as `device_map="auto"` does: each GPU waits for the one before it."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            after = 0.0 if wait else host.until()
            for device in range(1 if cured else gpus):
                host.device = device
                for _ in range(20 // (1 if cured else gpus)):
                    host.think(8.0)
                    after = host.launch(HGEMM, 500.0 / (gpus if cured else 1), after=after)
            if wait:
                host.wait("cudaStreamSynchronize")
            host.device = 0

        host = Host(extra={"deviceProperties": [GPU | {"id": number} for number in range(gpus)]}, ahead_us=40_000.0)
        return loop(body, host=host, steps=12)

    return build


def uneven(cured: bool) -> Host:
    """Two GPUs work at once, but one of them has a third of the work."""

    def body(host: Host, number: int) -> None:
        for place in range(30):
            for device in (0, 1):
                if cured or device == 1 or place % 3 == 0:
                    host.device = device
                    host.think(5.0)
                    host.launch(HGEMM, 400.0 if not cured else 400.0 * 2 / 3)
        host.device = 1
        host.wait()

    host = Host(extra={"deviceProperties": [GPU | {"id": number} for number in range(2)]}, ahead_us=20_000.0)
    return loop(body, host=host)


def saving(cured: bool) -> Host:
    """One of ten steps saves a checkpoint."""

    def body(host: Host, number: int) -> None:
        host.eager(20, 500.0)
        host.wait()
        if number == 7 and not cured:
            with host.blame(), host.frames("train.py(90): save_checkpoint", f"{PACKAGES}/torch/serialization.py(600): save"):
                host.think(60_000.0)

    return loop(body, steps=10)


def loading(frames: tuple[str, ...]) -> Build:
    """The loader is slow, and what it does is recorded."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            if not cured:
                with (
                    host.blame(),
                    host.note("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
                    host.frames(*frames),
                ):
                    host.think(12_000.0)
            host.eager()
            host.wait()

        return loop(body)

    return build


def experts(cured: bool) -> Host:
    """A mixture of experts on AMD: tokens go to the experts and come back through MORI."""

    def body(host: Host, number: int) -> None:
        for _ in range(5):
            if not cured:
                for name in MORI:
                    host.launch(name, 600.0)
            for _ in range(4):
                host.think(5.0)
                host.launch(GEMM_KERNEL, 500.0)

    return loop(body, host=Host(rank=0, world_size=8, hip=True), frames=("serve.py(4): run",))


def accumulated(outer: str, inner: str, *, steps: int = 6, optimizer: bool = False) -> Build:
    """A step of four parts, each of them marked, and a mark around all four."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            for part in range(4):
                with host.note(inner.format(number * 4 + part)):
                    host.eager(10, 500.0)
            if optimizer:
                with host.note("Optimizer.step#AdamW.step"):
                    host.launch("multi_tensor_apply_kernel", 300.0)

        return loop(body, mark=outer, steps=steps)

    return build


SHARES = [
    Case(
        name="three GPUs take turns, and the host waits for the last",
        build=in_turn(3, wait=True),
        first=("idle_gpu",),
        absent=("launch_bound", "host_sync", "host_work"),
        says=("take turns",),
    ),
    Case(
        name="three GPUs take turns behind a host that runs ahead", build=in_turn(3, wait=False), first=("idle_gpu",), steps=False
    ),
    Case(name="two GPUs take turns", build=in_turn(2, wait=True), first=("idle_gpu",), says=("GPU 0", "GPU 1")),
    Case(name="one of two GPUs has a third of the work", build=uneven, first=("idle_gpu",), says=("GPU 0 is busy only",)),
    Case(
        name="one of ten steps saves",
        build=saving,
        first=("host_work",),
        where=("save_checkpoint (train.py:90)",),
        says=("in 1 of 10 steps", "60.", "save less often"),
    ),
    Case(
        name="a loader whose functions were recorded",
        build=loading(("data.py(31): __getitem__", f"{PACKAGES}/PIL/Image.py(900): convert")),
        first=("input_starved",),
        where=("__getitem__ (data.py:31)",),
    ),
    Case(
        name="a loader whose functions were not recorded",
        build=loading(()),
        first=("input_starved",),
        where=("enumerate(DataLoader)",),
    ),
    Case(
        name="MORI hands tokens to experts",
        build=experts,
        first=("exposed_comm",),
        says=("fewer GPUs",),
    ),
    Case(name="global_batch around micro_step", build=accumulated("global_batch", "micro_step"), by="marked"),
    Case(name="two of global_batch around micro_step", build=accumulated("global_batch", "micro_step", steps=3), by="marked"),
    Case(name="update around mini_step", build=accumulated("update {}", "mini_step {}", steps=4), by="marked"),
    Case(
        name="a mark of any name around steps as often as the optimizer steps",
        build=accumulated("gradient_update", "train_step {}", optimizer=True),
        by="marked",
    ),
]


@pytest.mark.parametrize("case", SHARES, ids=lambda case: case.name)
def test_shares_of_gpus_steps_and_marks_are_told(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)


def test_epochs_around_steps_are_not_steps(tmp_path: Path) -> None:
    build = accumulated("epoch {}", "train_step {}", steps=3)
    answer = gpuwise.why([str(build(False).write(tmp_path / "trace.json"))]).to_dict()
    assert answer["steps"]["count"] in (15, 16)


def test_steps_of_a_file_without_categories_are_its_marks(tmp_path: Path) -> None:
    def body(host: Host, number: int) -> None:
        host.eager(10 + number % 2, 400.0)
        host.wait()

    host = loop(body, mark="train_step", steps=6)
    for event in host.events:
        on_device = "stream" in event["args"]
        event["pid"] = "CUDA functions" if on_device else "CPU functions"
        del event["cat"]
    host.extra = {}
    answer = gpuwise.why([str(host.write(tmp_path / "trace.json"))]).to_dict()
    assert answer["format"] == "chrome trace without categories"
    assert (answer["steps"]["count"], answer["steps"]["by"]) == (6, "marked by the program")
