"""Watching a GPU: the real nvidia-ml-py on a stand-in for its driver, playing scenarios."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from making_nvml import build_nvml

SCRIPT = """
import os, sys, time
from pathlib import Path
Path(os.environ["NVML_PID_FILE"]).write_text(str(os.getpid()))
sys.path.insert(0, os.environ["STEPS"])
import gpuwise_steps
marks = gpuwise_steps.Marks(os.environ["GPUWISE_WATCH"])
marks.starts(4)
for _ in range(45):
    marks.begin(); marks.end(32)
    time.sleep(0.05)
    marks.stepped()
"""
pytestmark = [pytest.mark.slow, pytest.mark.alone]  # beside two others on two cores, a made loader seems slow
STEPS = Path(__file__).parents[3] / "src/gpuwise/live/hook"
NAMED = [
    ("throttled", "throttled", "thermal (hardware) 100%"),
    ("x4", "pcie_degraded", "PCIe 4.0 x4 under load, but the card supports 4.0 x16"),
    ("spilled", "vram_spill", "of its memory is in use"),
    ("shared", "shared_gpu", "occupy 5.4 GB"),
    ("limited", "power_limited", "71% of the default"),
]
FAILING = [
    ("lost", "fell off the bus"),
    ("unloaded", "the driver stopped responding"),
    ("silent", "no longer responds"),
    ("forbidden", "no permission to query the NVIDIA driver"),
]
SCENARIOS = ["healthy", *(scenario for scenario, *_ in (*NAMED, *FAILING))]
EXPECTING = ("healthy", "--model", "resnet18", "--precision", "amp")
AT_A_TIME = 3  # each of them sleeps for most of its time
Answers = Mapping[tuple[str, ...], Future[dict[str, Any]]]


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_nvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="module")
def answers(nvml: Path, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What is said under each scenario. All of them have ended before the first test looks."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return {
            asked: pool.submit(watched, nvml, tmp_path_factory.mktemp("watched"), *asked)
            for asked in (*((scenario,) for scenario in SCENARIOS), EXPECTING)
        }


def watched(nvml: Path, folder: Path, scenario: str, *options: str) -> dict[str, Any]:
    """What `gpuwise watch --json` says of a small program under this scenario."""
    variables = {
        **os.environ,
        "LD_LIBRARY_PATH": str(nvml),
        "NVML_SCENARIO": scenario,
        "NVML_PID_FILE": str(folder / "pid"),
        "STEPS": str(STEPS),
    }
    command = [sys.executable, "-m", "gpuwise", "watch", "--json", *options, "--", sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def about_the_gpu(answer: dict[str, Any]) -> list[str]:
    """Codes of findings that are not about this machine's own load."""
    return [finding["code"] for finding in answer["findings"] if finding["code"] != "cpu_starved"]


def test_a_healthy_gpu_is_seen_and_has_no_finding(answers: Answers) -> None:
    answer = answers["healthy",].result()
    assert about_the_gpu(answer) == []
    (gpu,) = answer["vitals"]["gpus"]
    assert (answer["gpu"], gpu["pcie_lanes"], gpu["temperature_c"]) == ("RTX 3090", 16, 68)
    assert gpu["busy_fraction"] == pytest.approx(0.96)
    assert gpu["other_processes"] == 0
    assert answer["steps"]["batch"] == 32
    assert answer["steps"]["workers"] == 4
    assert answer["exit_code"] == 0


@pytest.mark.parametrize(("scenario", "code", "word"), NAMED)
def test_each_scenario_is_named(answers: Answers, scenario: str, code: str, word: str) -> None:
    answer = answers[scenario,].result()
    assert about_the_gpu(answer) == [code]
    finding = next(finding for finding in answer["findings"] if finding["code"] == code)
    assert any(word in line for line in finding["evidence"])
    assert 1.0 <= finding["gain_low"] <= finding["gain_high"] < 25.0


@pytest.mark.parametrize(("scenario", "words"), FAILING)
def test_a_driver_that_fails_is_told_and_the_verdict_is_still_given(answers: Answers, scenario: str, words: str) -> None:
    answer = answers[scenario,].result()
    assert any(words in fault for fault in answer["faults"])
    assert answer["steps"]["count"] == 44
    assert answer["verdict"]


def test_the_step_is_held_against_the_prediction(answers: Answers) -> None:
    answer = answers[EXPECTING].result()
    assert answer["expected"]["gpu"] == "RTX 3090"
    assert "batch 32, amp" in answer["expected"]["setting"]
    found = [finding for finding in answer["findings"] if finding["code"] == "slower_than_expected"]
    assert bool(found) == (answer["step_s"] > answer["expected"]["high_s"])
