"""Devices that are not GPUs, or that the trace numbers in its own way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gpuwise
from gpuwise.core.errors import BadFile
from making_traces import GPU, SGEMM, Run, training

MI300X = {"name": "AMD Instinct MI300X", "totalGlobalMem": 206_141_652_992, "computeMajor": 9, "computeMinor": 4, "numSms": 304}
SUBMIT = "runFunction - job_prep_and_submit_for_execution"


def written(run: Run, path: Path, **head: Any) -> str:
    document = run.document() | head
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def on_device(run: Run, index: int) -> Run:
    for event in run.events:
        if "stream" in event["args"]:
            event["args"]["device"] = event["pid"] = index
    return run


def mtia(run: Run, backend: bool, categories: bool) -> Run:
    """The same run as the profiler writes it on an MTIA."""
    for event in run.events:
        if event["name"] == "cudaLaunchKernel":
            event["name"] = SUBMIT if not backend else "enqueue"
            event["cat"] = "mtia_runtime" if categories else "cuda_runtime"
        elif event["cat"] == "kernel" and categories:
            event["cat"] = "mtia_ccp_events"
    return run


@pytest.mark.parametrize("count", [1, 8])
def test_rocm_counts_sockets_as_devices_and_the_gpu_is_found_nevertheless(count: int, tmp_path: Path) -> None:
    listed = [{**MI300X, "id": index, "warpSize": 64} for index in range(count)]
    answer = gpuwise.why([written(on_device(training(), count + 1), tmp_path / "made.json", deviceProperties=listed)])
    assert answer.to_dict()["gpu"] == "MI300X"


def test_an_unlisted_device_beside_different_ones_is_not_guessed(tmp_path: Path) -> None:
    listed = [{**MI300X, "id": 0}, {**GPU, "id": 1}]
    assert (
        gpuwise.why([written(on_device(training(), 5), tmp_path / "made.json", deviceProperties=listed)]).to_dict()["gpu"] is None
    )


@pytest.mark.parametrize("backend", [True, False])
@pytest.mark.parametrize("categories", [True, False])
def test_an_mtia_is_not_diagnosed_as_a_gpu(backend: bool, categories: bool, tmp_path: Path) -> None:
    head: dict[str, Any] = {"deviceProperties": []}
    if backend:
        head["distributedInfo"] = {"backend": "mtia:hccl", "rank": 0, "world_size": 1}
    run = mtia(training(name=SGEMM, load_us=6000.0, kernel_us=100.0, gap_us=150.0), backend, categories)
    answer = gpuwise.why([written(run, tmp_path / "made.json", **head)])
    told = answer.to_dict()
    assert told["gpu"] is None
    assert told["gpus"][0]["device"] == "MTIA"
    assert not {"fp32_matmul", "tf32_off", "launch_bound", "small_model"} & {finding["code"] for finding in told["findings"]}
    assert "input_starved" in [finding["code"] for finding in told["findings"]]
    assert told["verdict"].startswith("the MTIA waits for the input pipeline")
    assert "GPU" not in str(answer).replace("not a GPU", "")


def cpu_run(copies: bool, launches: bool = False) -> Run:
    """Training on the CPU; a few copies to a GPU beside it, and maybe launches of kernels that were not recorded."""
    run = Run()
    for step in range(4):
        begin = run.host_us
        if copies:
            run.copy(1000, 5.0, blocking=False)
        if launches:
            run.call("cudaLaunchKernel", 5.0)
        for _ in range(10):
            run.op("aten::mm", 900.0, [[512, 512], [512, 512]])
            run.host_us += 1000.0
        run.mark(f"ProfilerStep#{step}", begin, run.host_us)
    return run


@pytest.mark.parametrize("copies", [True, False])
def test_a_run_on_the_cpu_is_diagnosed_as_one_even_beside_copies_to_a_gpu(copies: bool, tmp_path: Path) -> None:
    answer = gpuwise.why([str(cpu_run(copies).write(tmp_path / "made.json"))])
    assert answer.view.scene.on_cpu
    assert answer.to_dict()["gpu"] is None
    assert answer.view.whole.busy_fraction == pytest.approx(0.9, abs=0.02)


def test_launches_without_kernels_are_not_taken_for_a_run_on_the_cpu(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="contains no GPU work"):
        gpuwise.why([str(cpu_run(True, launches=True).write(tmp_path / "made.json"))])


def test_copies_alone_are_the_work_of_a_gpu(tmp_path: Path) -> None:
    run = Run()
    for _ in range(40):
        run.copy(1_000_000, 100.0, blocking=False)
    assert not gpuwise.why([str(run.write(tmp_path / "made.json"))]).view.scene.on_cpu
