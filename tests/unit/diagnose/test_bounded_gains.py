"""No fix gives back more than its cause costs, unless the finding says why."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuwise
from gpuwise.diagnose.checks import input_starved
from gpuwise.diagnose.checks.slower_than_expected import Expectation, judge_step
from gpuwise.diagnose.registry import run_live_checks
from gpuwise.diagnose.types import Finding, Gain
from gpuwise.diagnose.vitals import GpuVitals, Vitals
from gpuwise.questions.common.diagnosis import finding_dict
from making_traces import SGEMM, Run, training

SHARE = st.floats(0.0, 1.0)
TIMES = st.floats(1.0, 50.0)


def finding(share: float, gain: Gain) -> Finding:
    return Finding(
        code="x",
        title="x",
        seconds_per_step=share,
        share_fraction=share,
        gain=gain,
        confidence="high",
        evidence=("seen",),
        remedy="do",
        verify="look",
    )


def most(share: float) -> float:
    return 1.0 / max(1.0 - share, 0.05) * 1.005


@given(SHARE, TIMES, TIMES)
def test_a_gain_without_a_reason_is_held_to_its_share(share: float, one: float, two: float) -> None:
    gain = finding(share, Gain(low=min(one, two), high=max(one, two))).gain
    assert 1.0 <= gain.low <= gain.high <= most(share)


@given(SHARE, TIMES, TIMES)
def test_a_reason_keeps_the_gain_and_is_told_only_where_it_is_needed(share: float, one: float, two: float) -> None:
    low, high = min(one, two), max(one, two)
    told = finding(share, Gain(low=low, high=high, beyond="because"))
    assert (told.gain.low, told.gain.high) == (low, high)
    assert bool(told.gain.beyond) == (high > most(share))
    assert ("because" in told.lines[-1]) == bool(told.gain.beyond)
    assert finding_dict(told)["gain_reason"] == (told.gain.beyond or None)


@pytest.mark.parametrize(("gain", "confidence"), [((1.4, 19.98), "medium"), ((1.4, 4.3), "medium"), ((1.4, 4.1), "high")])
def test_a_wide_gain_is_not_of_high_confidence_and_says_what_its_ends_mean(gain: tuple[float, float], confidence: str) -> None:
    told = finding(0.95, Gain(low=gain[0], high=gain[1]))
    assert told.confidence == confidence
    assert any("upper end" in line for line in told.lines) == (confidence == "medium")


def on_cpu() -> Run:
    """Small ops with much between them, on a machine without a GPU."""
    run = Run()
    for step in range(5):
        begin = run.host_us
        run.load(3000.0, workers=False)
        for _ in range(40):
            run.op("aten::addmm", 30.0)
            run.think(100.0)
        run.mark(f"ProfilerStep#{step}", begin, run.host_us)
    return run


RUNS = {
    "starved": training(load_us=6000.0, workers=False, name=SGEMM),
    "launches": training(kernels=200, kernel_us=4.0, gap_us=15.0),
    "copies": training(copy_us=20_000.0),
    "cpu": on_cpu(),
}


@pytest.mark.parametrize("name", RUNS)
def test_findings_of_made_traces_keep_to_their_shares(name: str, tmp_path: Path) -> None:
    found = gpuwise.why([str(RUNS[name].write(tmp_path / "trace.json"))]).to_dict()["findings"]
    assert found
    for one in found:
        assert one["gain_high"] <= most(one["share_fraction"]) or one["gain_reason"], one["code"]
    assert any(one["gain_reason"] for one in found) == (name == "cpu")


def test_seconds_and_shares_are_of_the_mean_step(tmp_path: Path) -> None:
    run = training(steps=4, load_us=1000.0)
    training(run, steps=2, load_us=30_000.0, numbers=5)
    answer = gpuwise.why([str(run.write(tmp_path / "trace.json"))])
    told = answer.to_dict()
    assert told["step_s"] < 0.8 * told["mean_step_s"], "the median and the mean differ"
    for one in told["findings"]:
        assert one["seconds_per_step"] / told["mean_step_s"] == pytest.approx(one["share_fraction"], rel=1e-6)


def test_a_live_gain_above_its_share_names_the_best_step() -> None:
    waiting = Vitals(step_s=0.100, wait_s=0.030, work_low_s=0.050, core_count=4)
    (found,) = [one for one in run_live_checks(waiting)[0] if one.code == input_starved.CODE]
    assert found.gain.high == pytest.approx(2.0)
    assert "50.0 ms at best" in found.gain.beyond
    even = Vitals(step_s=0.100, wait_s=0.030, work_low_s=0.070, core_count=4)
    (found,) = [one for one in run_live_checks(even)[0] if one.code == input_starved.CODE]
    assert found.gain.beyond == ""


def test_live_findings_of_a_sick_gpu_keep_to_their_shares() -> None:
    gpu = GpuVitals(
        name="RTX 3090",
        sample_count=20,
        load_count=20,
        busy_fraction=0.9,
        clock_hz=0.9e9,
        boost_hz=1.7e9,
        reasons={"thermal (hardware)": 0.8},
        power_limit_watts=200.0,
        power_default_watts=350.0,
        pcie_generation=3,
        pcie_generation_max=4,
        pcie_lanes=4,
        pcie_lanes_max=16,
        traffic_bytes_per_s=3e9,
        memory_used_fraction=0.99,
        other_processes=1,
        other_busy_fraction=0.4,
        other_memory_bytes=5e9,
    )
    found, _ = run_live_checks(Vitals(step_s=0.1, expected_s=0.02, gpus=(gpu,), core_count=4))
    assert len(found) == 5
    for one in found:
        assert one.gain.high <= most(one.share_fraction) or one.gain.beyond, one.code


def test_a_slow_step_says_that_its_range_is_of_the_prediction() -> None:
    expected = Expectation(model="m", gpu="g", step_s=0.05, low_s=0.04, high_s=0.06, setting="batch 1")
    found = judge_step(0.1, expected)
    assert isinstance(found, Finding)
    assert found.share_fraction == pytest.approx(0.5)
    assert found.gain.high == pytest.approx(2.5)
    assert "predicted" in found.gain.beyond


@pytest.mark.parametrize(
    ("low", "high", "severity"),
    [
        (1.0, 1.049, "minor"),
        (1.0, 1.051, "moderate"),
        (1.19, 1.19, "moderate"),
        (1.0, 1.43, "moderate"),  # the middle of a range is on a scale of ratios
        (1.21, 1.21, "major"),
        (1.0, 1.45, "major"),
    ],
)
def test_a_finding_is_minor_below_5_percent_and_major_above_20(low: float, high: float, severity: str) -> None:
    assert finding(0.9, Gain(low=low, high=high)).severity == severity
