"""Readings of GPUs as text, alone and beside a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gpuwise
from gpuwise.core.errors import BadFile
from gpuwise.trace.readers.telemetry import read_telemetry
from making_files import dcgmi, dmon, query, wandb
from making_traces import training


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def why(*paths: Path, **options: Any) -> dict[str, Any]:
    answer = gpuwise.why([str(path) for path in paths], **options)
    assert str(answer)
    found: dict[str, Any] = answer.to_dict()
    json.dumps(found, allow_nan=False)
    return found


def test_columns_of_dmon_are_read_by_their_names(tmp_path: Path) -> None:
    found = read_telemetry(write(tmp_path / "f.txt", dmon(rows=5)))
    assert len(found.readings) == 10
    assert found.lost == 0
    first = found.readings[0]
    assert (first.busy_fraction, first.power_watts, first.clock_hz) == (0.98, 245.0, 1.38e9)
    assert first.memory_used_bytes == 12_000 * 2**20
    assert first.reasons == ()


def test_a_gpu_that_heat_slows_down_is_found_in_dmon(tmp_path: Path) -> None:
    answer = why(write(tmp_path / "f.txt", dmon(thermal=1)), gpu="V100 SXM 32GB")
    assert [one["code"] for one in answer["findings"]] == ["throttled"]
    assert answer["findings"][0]["gain_high"] == pytest.approx(1530 / 1080, abs=0.01)
    assert "throttled" in answer["verdict"]
    assert len(answer["readings"]["gpus"]) == 2


def test_a_healthy_gpu_has_no_finding(tmp_path: Path) -> None:
    answer = why(write(tmp_path / "f.txt", dmon(clock=1530)), gpu="V100 SXM 32GB")
    assert answer["findings"] == []
    assert answer["busy_fraction"] == pytest.approx(0.98)


def test_the_growing_times_of_dcgm_are_reasons_only_where_they_grow(tmp_path: Path) -> None:
    cool = why(write(tmp_path / "cool.txt", dcgmi()), gpu="A100 PCIe 40GB")
    hot = why(write(tmp_path / "hot.txt", dcgmi(violation_us=9_000)), gpu="A100 PCIe 40GB")
    assert [one["code"] for one in cool["findings"]] == []
    assert [one["code"] for one in hot["findings"]] == ["throttled"]
    assert hot["readings"]["gpus"][0]["reasons"]["thermal"] == pytest.approx(19 / 20)
    assert hot["readings"]["gpus"][1]["reasons"] == {}


def test_a_query_of_nvidia_smi_names_the_gpu_and_the_reason(tmp_path: Path) -> None:
    answer = why(write(tmp_path / "f.csv", query()))
    assert answer["gpu"] == "T4"
    (finding,) = answer["findings"]
    assert finding["code"] == "throttled"
    assert "thermal (software) 100%" in finding["evidence"][0]


@pytest.mark.parametrize("prefix", ["", "run-7 - "])
def test_metrics_of_wandb_are_read_with_or_without_the_name_of_the_run(prefix: str, tmp_path: Path) -> None:
    text = wandb().replace("system.gpu", f"{prefix}system.gpu").replace("system.cpu,", f"{prefix}system.cpu,")
    answer = why(write(tmp_path / "f.csv", text))
    assert answer["busy_fraction"] == pytest.approx(0.3)
    assert answer["readings"]["gpus"][0]["memory_used_fraction"] == pytest.approx(0.97)
    assert "busy 30% of the time" in answer["verdict"]
    assert {"throttled", "pcie_degraded"} <= {one["code"] for one in answer["abstained"]}


def test_readings_beside_a_trace_are_checked_with_its_gpu_and_its_step(tmp_path: Path) -> None:
    trace = training(steps=6).write(tmp_path / "trace.json")
    alone, both = why(trace), why(trace, write(tmp_path / "f.txt", dmon(thermal=1)))
    assert "throttled" in {one["code"] for one in alone["abstained"]}
    assert "throttled" not in {one["code"] for one in both["abstained"]}
    (finding,) = [one for one in both["findings"] if one["code"] == "throttled"]
    assert finding["seconds_per_step"] == pytest.approx((1 - 1080 / 1530) * both["mean_step_s"], rel=0.02)
    assert both["files"] == ["trace.json"]


@pytest.mark.parametrize("size", ["1e-320", "1e300", "-5", "nan", "inf"])
def test_sizes_that_cannot_be_are_no_readings(size: str, tmp_path: Path) -> None:
    answer = why(write(tmp_path / "f.csv", query().replace("15360 MiB", f"{size} MiB")))
    assert (answer["readings"]["gpus"][0]["memory_used_fraction"] or 0.0) < 1.0


def test_readings_in_the_folder_of_a_trace_are_found_by_their_content(tmp_path: Path) -> None:
    training(steps=6).write(tmp_path / "trace.json")
    write(tmp_path / "gpu.log", dmon(thermal=1))
    write(tmp_path / "notes.txt", "nothing to see here")
    assert "throttled" in {one["code"] for one in why(tmp_path)["findings"]}


@pytest.mark.parametrize(
    "text",
    [
        "# gpu    pwr  gtemp\n# Idx      W      C\n",
        "# gpu    pwr  gtemp\n    0      -      -\n    x      1      2\n    0      1\n",
        "#Entity   GPUTL\nID\nGPU\nGPU 0\nCI 3   5\n",
        "_runtime,system.gpu.0.gpu\n1,\n2,nan\n3\n",
        "index, utilization.gpu [%]\n0, [N/A]\n",
    ],
)
def test_a_table_without_any_reading_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no reading"):
        gpuwise.why([str(write(tmp_path / "f.txt", text))])
