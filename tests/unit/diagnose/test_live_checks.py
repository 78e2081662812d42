"""Checks on watched runs: each fires for its reason and stays silent without it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuwise.diagnose.fleet import Member
from gpuwise.diagnose.registry import run_fleet_checks, run_live_checks
from gpuwise.diagnose.vitals import GpuVitals, Vitals

GPU = GpuVitals(
    name="RTX 3090",
    sample_count=20,
    load_count=20,
    busy_fraction=0.95,
    clock_hz=1.69e9,
    boost_hz=1.695e9,
    reasons={"power cap": 0.9},
    power_watts=330.0,
    power_limit_watts=350.0,
    power_default_watts=350.0,
    temperature_c=70.0,
    pcie_generation=4,
    pcie_generation_max=4,
    pcie_lanes=16,
    pcie_lanes_max=16,
    traffic_bytes_per_s=1e9,
    memory_used_fraction=0.5,
    other_processes=0,
)
HEALTHY = Vitals(
    step_s=0.1,
    wait_s=0.001,
    cpu_s=0.1,
    work_low_s=0.095,
    workers=4,
    core_count=8,
    cores_used_fraction=0.4,
    delayed_fraction=0.01,
    gpus=(GPU,),
)


def codes(vitals: Vitals) -> list[str]:
    return [finding.code for finding in run_live_checks(vitals)[0]]


def with_gpu(**changes: object) -> Vitals:
    return replace(HEALTHY, gpus=(replace(GPU, **changes),))  # type: ignore[arg-type]


def test_a_healthy_run_has_no_finding_and_nothing_is_left_open() -> None:
    assert run_live_checks(HEALTHY) == ((), ())


@pytest.mark.parametrize(
    ("vitals", "code"),
    [
        (replace(HEALTHY, wait_s=0.06, work_low_s=0.04), "input_starved"),
        (with_gpu(reasons={"thermal (software)": 0.3}, clock_hz=1.2e9), "throttled"),
        (with_gpu(reasons={"power brake": 0.06}, clock_hz=1.2e9), "throttled"),
        (with_gpu(pcie_lanes=4), "pcie_degraded"),
        (with_gpu(pcie_generation=1), "pcie_degraded"),
        (with_gpu(memory_used_fraction=0.99, traffic_bytes_per_s=12e9), "vram_spill"),
        (with_gpu(power_limit_watts=200.0), "power_limited"),
        (with_gpu(other_processes=1, other_busy_fraction=0.2), "shared_gpu"),
        (with_gpu(other_processes=1, other_memory_bytes=3e9), "shared_gpu"),
        (replace(HEALTHY, cores_used_fraction=0.98, delayed_fraction=0.3), "cpu_starved"),
        (replace(HEALTHY, workers=16), "cpu_starved"),
    ],
)
def test_each_fault_is_named_alone(vitals: Vitals, code: str) -> None:
    assert codes(vitals) == [code]


@pytest.mark.parametrize(
    "vitals",
    [
        with_gpu(pcie_lanes=4, load_count=0),  # an idle card lowers its link
        with_gpu(reasons={"power cap": 1.0}),  # every card meets its cap at full load
        with_gpu(memory_used_fraction=0.99),  # allocators keep what they once had
        replace(HEALTHY, cores_used_fraction=0.98),  # busy, and nobody waits
        replace(HEALTHY, wait_s=0.004),
        replace(HEALTHY, workers=0),  # no workers, and none needed
    ],
)
def test_what_is_no_fault_is_not_named(vitals: Vitals) -> None:
    assert codes(vitals) == []


def test_a_full_memory_and_a_step_twice_as_long_as_expected_is_a_spill() -> None:
    full = replace(with_gpu(memory_used_fraction=0.97), expected_s=0.04)
    (finding,) = run_live_checks(full)[0]
    assert (finding.code, finding.confidence) == ("vram_spill", "high")
    assert codes(replace(full, expected_s=0.09)) == []


def test_a_loader_without_workers_is_named_behind_the_wait() -> None:
    starved = replace(HEALTHY, wait_s=0.06, work_low_s=0.04, workers=0)
    assert codes(starved) == ["input_starved", "single_process_loader"]


@pytest.mark.parametrize(("cores", "workers"), [(0, 4), (1, 1), (2, 2), (8, 4)])
def test_no_more_workers_than_cores_are_advised(cores: int, workers: int) -> None:
    finding = run_live_checks(replace(HEALTHY, wait_s=0.06, work_low_s=0.04, workers=0, core_count=cores))[0][1]
    assert f"num_workers={workers}," in finding.remedy
    assert f" workers={workers}," in finding.remedy
    assert " 0 cores" not in finding.evidence[0]


def test_the_gain_of_loading_is_bounded_by_the_cores() -> None:
    starved = replace(HEALTHY, wait_s=0.06, work_low_s=0.04, workers=0)
    free = run_live_checks(starved)[0][0].gain
    assert free.high == pytest.approx(2.5)
    tight = run_live_checks(replace(starved, cpu_s=0.1, core_count=2))[0][0].gain
    assert tight.high == pytest.approx(2.0)
    assert 1.0 < tight.low < tight.high


def test_cores_that_others_take_are_told_behind_the_causes() -> None:
    crowd = replace(HEALTHY, cores_used_fraction=1.0, delayed_fraction=0.8, wait_s=0.01, work_low_s=0.09)
    assert codes(replace(crowd, own_cores_fraction=0.9)) == ["cpu_starved", "input_starved"]
    assert codes(replace(crowd, own_cores_fraction=0.2)) == ["input_starved", "cpu_starved"]


def test_what_cannot_be_seen_is_said() -> None:
    nothing = Vitals(blind="no GPU was seen: no driver", without_steps="mark them")
    findings, abstained = run_live_checks(nothing)
    assert findings == ()
    assert {entry.code for entry in abstained} == {
        "throttled",
        "pcie_degraded",
        "vram_spill",
        "power_limited",
        "shared_gpu",
        "input_starved",
        "single_process_loader",
        "cpu_starved",
    }
    assert all(entry.reason and entry.record_next for entry in abstained)


@pytest.mark.parametrize(("lanes", "lost"), [(8, 1 / 2), (4, 3 / 4), (2, 7 / 8)])
def test_a_link_that_is_always_busy_costs_what_the_missing_lanes_would_carry(lanes: int, lost: float) -> None:
    (found,) = run_live_checks(with_gpu(pcie_lanes=lanes, traffic_bytes_per_s=1e12))[0]
    assert found.code == "pcie_degraded"
    assert found.share_fraction == pytest.approx(lost)
    assert found.gain.high == pytest.approx(16 / lanes)


def test_of_a_lower_clock_a_third_is_felt_at_least_and_all_at_most() -> None:
    """What waits for memory does not follow the clock: the page of `throttled`."""
    (found,) = run_live_checks(with_gpu(reasons={"thermal (software)": 0.3}, clock_hz=1.695e9 / 1.3))[0]
    assert (found.gain.low, found.gain.high) == (pytest.approx(1.1), pytest.approx(1.3))


def test_a_gpu_that_holds_up_a_job_loses_as_many_gpus_as_wait_for_it() -> None:
    member = Member(place="host 1", peers="job 7", assumed=False, vitals=GPU)
    slow = replace(member, vitals=replace(GPU, clock_hz=0.5 * 1.69e9))
    (found,) = [one for one in run_fleet_checks([member] * 7 + [slow]) if one.finding.code == "straggler"]
    assert found.named[0].holds == 8
    assert found.lost_gpus == pytest.approx(8 / 2)
