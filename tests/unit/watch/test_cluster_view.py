"""`gpuwise watch --prometheus` on a real Prometheus server that scrapes an exporter of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuwise.surfaces.cli.app import app
from making_cluster import FakeGpu, start_exporter, start_prometheus, wait_for_scrapes

pytestmark = pytest.mark.slow

CLUSTER = [
    *(FakeGpu("alpha", index) for index in range(4)),
    FakeGpu("alpha", 4, other={"DCGM_FI_DEV_GPU_UTIL": 0, "DCGM_FI_DEV_POWER_USAGE": 71, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0}),
    FakeGpu(
        "alpha",
        5,
        other={"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": 0x40, "DCGM_FI_DEV_SM_CLOCK": 1200, "DCGM_FI_DEV_GPU_TEMP": 91},
    ),
    FakeGpu("alpha", 6, other={"DCGM_FI_DEV_FB_USED": 80_500, "DCGM_FI_DEV_FB_FREE": 500, "DCGM_FI_PROF_PCIE_RX_BYTES": 3e10}),
    *(FakeGpu("beta", index, labels={"hpc_job": "4711"}) for index in range(3)),
    FakeGpu("gamma", 0, other={"DCGM_FI_DEV_GPU_UTIL": 61}, labels={"hpc_job": "4711"}),
    FakeGpu("gamma", 1, other={"DCGM_FI_DEV_XID_ERRORS": 79}, labels={"hpc_job": "4711"}),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start_exporter(lambda: CLUSTER) as exporter, start_prometheus(tmp_path_factory.mktemp("data"), exporter) as server:
        wait_for_scrapes(server, 8)
        yield server


@pytest.fixture(scope="module")
def answer(address: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "gpuwise", "watch", "--prometheus", address, "--last", "10s", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def named(answer: dict[str, Any], code: str) -> list[tuple[str, str]]:
    finding = next(finding for finding in answer["findings"] if finding["code"] == code)
    return [(gpu["host"], gpu["index"]) for gpu in finding["gpus"]]


def test_all_gpus_are_seen_once_with_host_and_product(answer: dict[str, Any]) -> None:
    assert (answer["gpu_count"], answer["host_count"]) == (12, 3)
    assert answer["gpu"] == "H100 SXM 80GB"
    first = answer["gpus"][0]
    assert (first["host"], first["index"], first["codes"]) == ("alpha", "0", [])
    assert first["busy_fraction"] == pytest.approx(0.97)
    assert first["clock_hz"] == pytest.approx(1.95e9)
    assert first["temperature_c"] == 62
    assert first["memory_used_fraction"] == pytest.approx(60 / 81)


@pytest.mark.parametrize(
    ("code", "who", "words"),
    [
        ("idle_gpu", ("alpha", "4"), "busy 0.0%, 71 W, 62.9 GB occupied"),
        ("throttled", ("alpha", "5"), "thermal (hardware) 100%, up to 91 °C"),
        ("vram_spill", ("alpha", "6"), "99% of its memory is in use, and 48% of the PCIe link is busy"),
        ("gpu_fault", ("gamma", "1"), "Xid 79 (the GPU has fallen off the bus)"),
    ],
)
def test_each_gpu_in_a_bad_way_is_named(answer: dict[str, Any], code: str, who: tuple[str, str], words: str) -> None:
    assert named(answer, code) == [who]
    finding = next(finding for finding in answer["findings"] if finding["code"] == code)
    assert words in finding["evidence"][0]
    assert 1.0 <= finding["gain_low"] <= finding["gain_high"] <= 20.0


def test_stragglers_are_those_behind_their_peers(answer: dict[str, Any]) -> None:
    assert sorted(named(answer, "straggler")) == [("alpha", "5"), ("gamma", "0")]
    finding = next(finding for finding in answer["findings"] if finding["code"] == "straggler")
    by_host = {gpu["host"]: gpu for gpu in finding["gpus"]}
    assert "one of 5 busy GPUs (job 4711, H100 SXM 80GB)" in by_host["gamma"]["evidence"]
    assert (by_host["gamma"]["confidence"], by_host["alpha"]["confidence"]) == ("medium", "low")
    assert {entry["name"] for entry in answer["assumptions"]} >= {"peers"}


def test_what_is_not_exported_is_said_with_what_to_add(answer: dict[str, Any]) -> None:
    told = {entry["code"]: entry["record_next"] for entry in answer["abstained"]}
    assert "DCGM_FI_DEV_PCIE_LINK_WIDTH" in told["pcie_degraded"]
    assert "DCGM_FI_DEV_ENFORCED_POWER_LIMIT" in told["power_limited"]
    assert "throttled" not in told


def test_text_and_report_say_the_same(address: str, tmp_path: Path) -> None:
    page = tmp_path / "cluster.html"
    command = ["watch", "--prometheus", f"{address}/", "--last", "10s", "-v", "--report", str(page)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("12 GPUs, busy ")
    assert "1 with errors or no longer reporting" in " ".join(result.output.split("\n\n")[0].split())
    for shown in (result.output, page.read_text(encoding="utf-8")):
        assert "alpha GPU 5 (H100 SXM 80GB): reasons for throttling under load: thermal (hardware) 100%" in " ".join(
            shown.split()
        )


def test_a_clock_of_ours_that_is_wrong_does_not_matter(address: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import time; true = time.time; time.time = lambda: true() - 1e6")
    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "gpuwise", "watch", "--prometheus", address, "--last", "10s"]
    variables = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.startswith("12 GPUs"), done.stderr


def test_a_prometheus_without_dcgm_says_what_to_install(tmp_path: Path) -> None:
    with start_prometheus(tmp_path) as server:
        result = CliRunner().invoke(app, ["watch", "--prometheus", server])
    assert result.exit_code != 0
    assert "has no DCGM metrics" in str(result.exception)
    assert "dcgm-exporter" in str(result.exception)
