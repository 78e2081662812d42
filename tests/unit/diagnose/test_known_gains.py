"""What a fix gives is what the same run takes without the cause; and what is no GPU is not judged as one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gpuwise
from judging_causes import Case, examine
from making_fleets import in_one_file, on_own_devices, ranks
from making_hosts import Host, loop, mean_step_s
from making_traces import ALL_REDUCE, HGEMM, RELU

AMD = {"name": "AMD Instinct MI300X", "totalGlobalMem": 206_141_652_992, "numSms": 304, "warpSize": 64}
TENSILE = "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN_K1"
Build = Callable[[bool], Host]


def launches(kernel_us: float, think_us: float) -> Build:
    """Kernels that end before the next one is launched; cured, one call launches them all."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            if cured:
                host.graph([(HGEMM if place % 5 else RELU, kernel_us) for place in range(100)])
            else:
                with host.blame():
                    host.eager(100, kernel_us, think_us=think_us)

        return loop(body)

    return build


def two_stalls(one_us: float, other_us: float) -> Build:
    """Two functions of which the longer one is cured."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            host.eager()
            host.wait("cudaStreamSynchronize")
            with host.frames("report.py(4): draw"):
                host.think(other_us)
            host.eager()
            host.wait("cudaStreamSynchronize")
            if not cured:
                with host.blame(), host.frames("image_processing.py(120): preprocess"):
                    host.think(one_us)

        return loop(body)

    return build


def loading_and_work(load_us: float, work_us: float, cure: str, steps: int = 6) -> Build:
    """A slow loader and slow Python; one of them is the larger."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            if not (cured and cure == "load"):
                with (
                    host.blame() if cure == "load" else host.frames(),
                    host.note("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
                ):
                    host.think(load_us)
            host.eager()
            if not (cured and cure == "work"):
                with host.blame() if cure == "work" else host.frames(), host.frames("image_processing.py(120): preprocess"):
                    host.think(work_us)

        return loop(body, steps=steps)

    return build


def reduced(exposed_us: float) -> Build:
    """An exchange of gradients behind the backward pass; cured, it runs beside it."""

    def build(cured: bool) -> Host:
        def body(host: Host, number: int) -> None:
            host.eager(12)
            if cured:
                host.launch(ALL_REDUCE, exposed_us, stream=20)
                host.eager(8)
            else:
                host.eager(8)
                end = host.launch(ALL_REDUCE, exposed_us, stream=20, after=host.until())
                host.free_us[7] = end

        return loop(body, host=Host(rank=0, world_size=8))

    return build


def copied(cured: bool) -> Host:
    """A batch of 100 MB that pinned memory would send beside the kernels."""

    def body(host: Host, number: int) -> None:
        kind = "Memcpy HtoD (Pinned -> Device)" if cured else "Memcpy HtoD (Pageable -> Device)"
        stream = 22 if cured else 7
        end = host._issue("gpu_memcpy", "Memcpy", kind, 8000.0, "cudaMemcpyAsync", stream, 5.0, bytes=10**8)
        if not cured:
            host.host_us = max(host.host_us, end)
            host.events[-2]["dur"] = end - (host.events[-2]["ts"] - host.begin_us)
        host.eager()

    return loop(body)


def tiny(cured: bool) -> Host:
    """A gap of 1 % of the step after a wait, and as much in Python."""

    def body(host: Host, number: int) -> None:
        host.eager(20, 1000.0)
        if not cured:
            host.item()
            with host.frames("logger.py(9): log_metrics"):
                host.think(180.0)

    return loop(body)


GAINS = [
    Case(name="launches five times as long as kernels", build=launches(4.0, 15.0), first=("launch_bound", "small_model")),
    Case(name="launches twice as long as kernels", build=launches(12.0, 20.0), first=("launch_bound", "small_model")),
    Case(name="the longer of two functions", build=two_stalls(40_000.0, 5000.0), first=("host_work",), lost=False),
    Case(
        name="Python slower than the loader",
        build=loading_and_work(15_000.0, 45_000.0, "work", steps=12),
        first=("host_work",),
        where=("preprocess (image_processing.py:120)",),
        absent=("launch_bound",),
        lost=False,
    ),
    Case(
        name="a loader slower than Python",
        build=loading_and_work(60_000.0, 10_000.0, "load"),
        first=("input_starved",),
        absent=("launch_bound",),
        lost=False,
    ),
    Case(name="an exchange that is not hidden", build=reduced(4000.0), first=("exposed_comm",)),
    Case(name="a short exchange that is not hidden", build=reduced(600.0), absent=("launch_bound",)),
    Case(name="a batch copied before the step", build=copied, first=("exposed_h2d", "pageable_copies")),
    Case(name="a gap of one percent", build=tiny, absent=("host_sync", "host_work")),
]


@pytest.mark.parametrize("case", GAINS, ids=lambda case: case.name)
def test_gains_hold_in_the_run_without_the_cause(case: Case, tmp_path: Path) -> None:
    examine(case, tmp_path)


def answer(host: Host, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = gpuwise.why([str(host.write(folder / "made.json"))]).to_dict()
    return found


def codes(found: dict[str, Any]) -> list[str]:
    return [finding["code"] for finding in found["findings"]]


def test_nothing_worth_less_than_two_percent_is_listed(tmp_path: Path) -> None:
    def body(host: Host, number: int) -> None:
        host.eager(20, 1000.0)
        host.item()
        host.think(200.0)

    found = answer(loop(body), tmp_path)
    assert codes(found) == [], [(finding["code"], finding["gain_high"]) for finding in found["findings"]]


@pytest.mark.parametrize("device", [0, 1, 2, 9])
def test_an_amd_gpu_is_known_whatever_its_number(device: int, tmp_path: Path) -> None:
    """ROCm counts processors and GPUs together in the events, and GPUs alone in the properties."""
    host = Host(hip=True, device=device, gpu={"id": 0, **AMD})
    loop(lambda made, number: made.eager(name=TENSILE), host=host)
    found = answer(host, tmp_path)
    assert "MI300X" in str(found["gpu"])
    assert [finding["code"] for finding in found["findings"] if finding["severity"] != "minor"] == []


def test_several_amd_gpus_are_known_in_their_order(tmp_path: Path) -> None:
    hosts = on_own_devices(ranks(2, hip=True, gpu={"id": 0, **AMD}))
    for host in hosts:
        host.device += 4
        loop(lambda made, number: made.eager(name=TENSILE), host=host)
    whole = in_one_file(hosts)
    whole.extra = {"deviceProperties": [{"id": number, **AMD} for number in range(2)]}
    found = answer(whole, tmp_path)
    assert "MI300X" in str(found["gpu"])
    assert len(found.get("gpus", [])) == 2


@pytest.mark.parametrize(
    ("work", "calls"),
    [("mtia_ccp_events", "mtia_runtime"), ("kernel", "privateuse1_runtime"), ("hpu_op", "hpu_runtime")],
)
def test_another_accelerator_is_not_judged_as_a_gpu(work: str, calls: str, tmp_path: Path) -> None:
    host = loop(lambda made, number: made.eager(30, 40.0, think_us=60.0))
    for event in host.events:
        event["cat"] = {"kernel": work, "cuda_runtime": calls}.get(event["cat"], event["cat"])
        event["name"] = event["name"].replace("cudaLaunchKernel", "runtimeLaunch")
    host.extra = {"deviceProperties": []}
    found = answer(host, tmp_path)
    assert found["gpu"] is None
    assert "GPU" not in found["verdict"], found["verdict"]
    assert not {"launch_bound", "small_model", "host_sync", "host_work"} & set(codes(found)), codes(found)


def on_cpu(cured: bool) -> Host:
    """No GPU at all: ops of 20 ms a step, and 15 ms in which a batch is loaded."""

    def body(host: Host, number: int) -> None:
        if not cured:
            with host.note("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
                host.think(15_000.0)
        for _ in range(20):
            with host.cpu("aten::addmm"):
                host.think(1000.0)
            host.think(10.0)

    host = loop(body)
    host.extra = {"deviceProperties": []}
    return host


def test_gains_on_a_cpu_are_bounded_and_hold(tmp_path: Path) -> None:
    sick = on_cpu(False)
    found = answer(sick, tmp_path)
    first = found["findings"][0]
    gain = mean_step_s(sick) / mean_step_s(on_cpu(True))
    assert first["code"] in ("input_starved", "single_process_loader")
    assert found["gpu"] is None
    assert "GPU" not in found["verdict"]
    assert first["gain_low"] <= gain <= first["gain_high"]
    assert first["gain_high"] <= 1.35 / (1.0 - first["share_fraction"])


def test_a_busy_cpu_is_no_idle_gpu(tmp_path: Path) -> None:
    found = answer(on_cpu(True), tmp_path)
    assert found["gpu"] is None
    assert "GPU" not in found["verdict"]
    assert [finding["code"] for finding in found["findings"] if finding["severity"] != "minor"] == []
