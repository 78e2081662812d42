"""Each check fires just above the threshold that its page states, and stays silent just below it.

Steps last 100 ms, so a share in percent equals the number of milliseconds; if the device gets its launches in time, nothing else
in them is idle. The share that a page states is read from the check's own docstring, so a changed threshold must change its page.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuwise.diagnose.checks import straggler
from gpuwise.diagnose.checks.idle_gpu import check_member
from gpuwise.diagnose.checks.slower_than_expected import Expectation, judge_step
from gpuwise.diagnose.fleet import Member
from gpuwise.diagnose.ranks import as_ranks, late_rank
from gpuwise.diagnose.registry import run_checks, run_live_checks
from gpuwise.diagnose.scene import make_scene
from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View, make_view
from gpuwise.diagnose.vitals import GpuVitals, Vitals
from gpuwise.hardware.catalog import load_catalog
from gpuwise.trace.read import read_trace
from making_traces import ALL_REDUCE, GPU, HGEMM, RELU, SGEMM, Run

STEP_US = 100_000.0
LATENCY_US = 8.0  # from the start of a launch to that of its kernel, in made runs
AMPERE = GPU | {"name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8, "numSms": 108}
NATIVE = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_nn"
Problem = Callable[[Run, float], None]


def sees(code: str) -> str:
    """What the page of a check says that it sees."""
    text = importlib.import_module(f"gpuwise.diagnose.checks.{code}").__doc__ or ""
    return " ".join(text.partition("## What it detects")[2].partition("## ")[0].split())


# ---------------------------------------------------------------- traces


def work(run: Run, duration: float, name: str = HGEMM, pieces: int = 20, **options: Any) -> None:
    """Kernels one behind the other; the host is ahead of them."""
    for _ in range(pieces):
        run.launch(name, duration / pieces, **options)


def wait(run: Run) -> None:
    """The host does nothing until the device has nothing left."""
    run.host_us = max(run.host_us, *run.free_us.values(), 0.0)


def made(problem: Problem, share: float, gpu: dict[str, Any] = GPU) -> Run:
    """Five steps with a problem that takes this share of each; kernels of 16-bit products are the rest."""
    run = Run(gpu=dict(gpu), free_us={7: 0.0})
    for number in range(5):
        begin = run.host_us
        problem(run, share * STEP_US)
        rest = begin + STEP_US - max(run.free_us.values())
        work(run, rest if run.free_us[7] > run.host_us else begin + STEP_US - run.host_us - LATENCY_US, NATIVE)
        wait(run)
        run.mark(f"ProfilerStep#{number}", begin, run.host_us)
    return run


def view(run: Run, folder: Path) -> View:
    name = "A100 SXM 80GB" if "A100" in run.gpu["name"] else "V100 SXM2 32GB"
    return make_view(make_scene(read_trace(run.write(folder / "made.json"))), load_catalog().find(name).gpu)


def found(run: Run, folder: Path) -> dict[str, Finding]:
    return {finding.code: finding for finding in run_checks(as_ranks([view(run, folder)]), None)[0]}


def loading(run: Run, duration: float) -> None:
    run.load(duration)


def loading_alone(run: Run, duration: float) -> None:
    run.load(duration, workers=False)


def copying(run: Run, duration: float) -> None:
    run.copy(int(duration * 20_000), duration, "Pinned -> Device")  # at 20 GB/s


def copying_pageable(run: Run, duration: float) -> None:
    run.copy(int(duration * 1_000), duration)  # at 1 GB/s


def launching_late(run: Run, duration: float) -> None:
    for _ in range(200):
        run.launch(HGEMM, 50.0)
        wait(run)
        run.think(duration / 200 - LATENCY_US)
    run.launch(HGEMM, 50.0)


def pausing(run: Run, duration: float) -> None:
    work(run, 20_000.0)
    wait(run)
    run.think(duration - LATENCY_US)


def compiling(run: Run, duration: float) -> None:
    work(run, 20_000.0)
    wait(run)
    run.call("cuModuleLoadData", duration - LATENCY_US)


def synchronising(run: Run, duration: float) -> None:
    for _ in range(4):
        work(run, 5_000.0)
        run.sync()
        run.think(duration / 4 - LATENCY_US)


def allocating(run: Run, duration: float) -> None:
    work(run, 50_000.0)
    run.call("cudaMalloc", duration)


def updating(run: Run, duration: float) -> None:
    work(run, 50_000.0)
    start = run.host_us
    work(run, duration, RELU.replace("relu", "adamless"), pieces=50)
    run.mark("Optimizer.step#SGD.step", start, run.host_us)


def reducing(run: Run, duration: float) -> None:
    work(run, 50_000.0)
    run.free_us[20] = run.free_us[7]
    run.free_us[7] = run.launch(ALL_REDUCE, duration, stream=20)


def running(name: str, **options: Any) -> Problem:
    """Kernels of this name, behind others so that they are launched in time."""

    def problem(run: Run, duration: float) -> None:
        work(run, 5_000.0, NATIVE)
        work(run, duration, name, **options)

    return problem


MISALIGNED = "cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1"
# code, the share its page states, how the page says it, what is wrong in the run, the GPU.
OF_TRACES: list[tuple[str, float, str, Problem, dict[str, Any]]] = [
    ("input_starved", 0.05, "at least 5% of the step", loading, GPU),
    ("single_process_loader", 0.05, "if data loading also slows the step down", loading_alone, GPU),
    ("exposed_h2d", 0.03, "at least 3% of the step", copying, GPU),
    ("pageable_copies", 0.05, "at least 5% of the step", copying_pageable, GPU),
    ("launch_bound", 0.15, "at least 15% of the step", launching_late, GPU),
    ("host_work", 0.05, "at least 5% of the step", pausing, GPU),
    ("compiling", 0.05, "at least 5% of the steady steps", compiling, GPU),
    ("host_sync", 0.02, "at least 2% of the step", synchronising, GPU),
    ("fp32_matmul", 0.1, "at least 10% of kernel time", running(SGEMM), GPU),
    ("tf32_off", 0.05, "at least 5% of kernel time", running("ampere_sgemm_128x64_nn"), AMPERE),
    ("old_arch_kernels", 0.2, "at least 20% of matrix time", running("volta_h884gemm_128x128_ldg8_f2f_nn"), AMPERE),
    ("misaligned_shapes", 0.05, "at least 5% of the step", running(MISALIGNED), AMPERE),
    ("bandwidth_bound", 0.3, "at least 30% of the step", running(RELU), GPU),
    ("small_grids", 0.5, "at least half of the kernel time", running(HGEMM, blocks=0.5), GPU),
    ("unfused_optimizer", 0.03, "at least 3% of the step", updating, GPU),
    ("layout_transposes", 0.03, "at least 3% of the step", running("nchwToNhwcKernel<half>"), GPU),
    ("allocator_churn", 0.005, "at least half a percent of the time", allocating, GPU),
    ("exposed_comm", 0.1, "at least 10% of the step", reducing, GPU),
]


@pytest.mark.parametrize(("code", "share", "says", "problem", "gpu"), OF_TRACES, ids=[case[0] for case in OF_TRACES])
def test_a_check_of_traces_fires_from_the_share_its_page_states(
    code: str, share: float, says: str, problem: Problem, gpu: dict[str, Any], tmp_path: Path
) -> None:
    assert says in sees(code)
    assert code not in found(made(problem, 0.94 * share, gpu), tmp_path)
    told = found(made(problem, 1.06 * share, gpu), tmp_path)
    assert code in told
    assert told[code].share_fraction == pytest.approx(1.06 * share, rel=0.04)


@pytest.mark.parametrize(
    ("kernel_us", "period_us", "load_us", "fires"),
    [
        (3.8, 10.0, 0.0, True),
        (4.2, 10.0, 0.0, False),  # computes more than 40% of the time
        (9.5, 30.0, 0.0, True),
        (10.5, 33.0, 0.0, False),  # kernels above 10 µs
        (5.8, 16.0, 6_300.0, True),
        (5.8, 16.0, 8_300.0, False),  # waits for launches less than 30% of the time, else for the loader
    ],
)
def test_a_small_model_computes_little_waits_for_launches_and_has_short_kernels(
    kernel_us: float, period_us: float, load_us: float, fires: bool, tmp_path: Path
) -> None:
    said = sees("small_model")
    assert all(part in said for part in ("at most 40% of the step", "at least 30% of it", "below 10 µs"))
    run = Run(free_us={7: 0.0})
    for number in range(4):
        begin = run.host_us
        if load_us:
            run.load(load_us)
        for _ in range(400):
            run.launch(HGEMM, kernel_us, call=2.0)
            run.think(period_us - 2.0)
        run.mark(f"ProfilerStep#{number}", begin, run.host_us)
    assert ("small_model" in found(run, tmp_path)) is fires


@pytest.mark.parametrize(("kernel_us", "fires"), [(9.5, False), (10.5, True)])
def test_element_wise_kernels_count_where_they_are_longer_than_10_microseconds(
    kernel_us: float, fires: bool, tmp_path: Path
) -> None:
    assert "longer than 10 µs" in sees("bandwidth_bound")
    run = Run(free_us={7: 0.0})
    for number in range(4):
        begin = run.host_us
        work(run, 500.0, pieces=1)
        work(run, 300 * kernel_us, RELU, pieces=300, call=2.0)
        wait(run)
        run.mark(f"ProfilerStep#{number}", begin, run.host_us)
    assert ("bandwidth_bound" in found(run, tmp_path)) is fires


@pytest.mark.parametrize(("length", "fires"), [(4, False), (5, True)])
def test_on_a_cpu_only_chains_of_five_element_wise_ops_count(length: int, fires: bool, tmp_path: Path) -> None:
    """A healthy network has an activation, a norm and a pooling between two convolutions; none of them can be fused there."""
    assert "chains of at least five element-wise ops" in sees("bandwidth_bound")
    run = Run(free_us={})
    for number in range(4):
        begin = run.host_us
        for name in ["aten::mm", *["aten::mul"] * length] * 3:
            run.op(name, 1000.0)
            run.think(1000.0)
        run.mark(f"ProfilerStep#{number}", begin, run.host_us)
    assert ("bandwidth_bound" in found(run, tmp_path)) is fires


def test_work_beside_other_work_is_not_exposed(tmp_path: Path) -> None:
    def beside(run: Run, duration: float) -> None:
        run.launch(RELU, duration, stream=20)
        work(run, duration + 50.0)

    hidden = made(beside, 0.6)
    looked = view(hidden, tmp_path)
    assert looked.work_s(looked.scene.named("relu")) == pytest.approx(0.06, rel=0.01)
    assert looked.exposed_s(looked.scene.named("relu")) < 0.001
    assert "bandwidth_bound" not in found(hidden, tmp_path)
    alone = view(made(running(RELU), 0.6), tmp_path)
    assert alone.exposed_s(alone.scene.named("relu")) == pytest.approx(0.06, rel=0.01)


# ---------------------------------------------------------------- several ranks


def rank_views(waits_us: list[float], folder: Path) -> list[View]:
    """Ranks whose collectives take so long, in steps of 100 ms; the rank with the shortest came last."""
    views = []
    for number, waiting in enumerate(waits_us):
        run = made(reducing, waiting / STEP_US)
        run.rank, run.world_size = number, len(waits_us)
        views.append(view(run, folder))
    return views


def test_a_late_rank_is_told_from_5_percent_of_the_step_on(tmp_path: Path) -> None:
    assert "at least 5% of the step" in sees("straggler")
    for lost, fires in ((4_700.0, False), (5_300.0, True)):
        told = straggler.check_ranks(as_ranks(rank_views([1000.0 + lost, 1000.0, 1000.0 + lost], tmp_path)))
        assert isinstance(told, Finding) is fires


def test_a_late_rank_costs_what_the_median_of_the_others_waits(tmp_path: Path) -> None:
    late = late_rank(as_ranks(rank_views([9_000.0, 30_000.0, 1_000.0, 11_000.0], tmp_path)))
    assert late is not None
    assert late.place == 2
    assert late.lost_s == pytest.approx((11_000 - 1_000) * 1e-6, rel=0.01)
    assert late.waits_s == pytest.approx([0.009, 0.030, 0.001, 0.011], rel=0.01)


# ---------------------------------------------------------------- watched runs

CARD = GpuVitals(
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
    pcie_generation=4,
    pcie_generation_max=4,
    pcie_lanes=16,
    pcie_lanes_max=16,
    traffic_bytes_per_s=1e9,
    memory_used_fraction=0.5,
)
WATCHED = Vitals(step_s=0.1, wait_s=0.001, cpu_s=0.1, work_low_s=0.095, workers=4, core_count=8, cores_used_fraction=0.4)
LINK_BYTES_PER_S = 31.5e9  # PCIe 4.0 x16 one way


def card(**changes: Any) -> Vitals:
    return replace(WATCHED, gpus=(replace(CARD, **changes),))


def spilling(link: float = 0.3, full: float = 0.96) -> Vitals:
    return card(memory_used_fraction=full, traffic_bytes_per_s=link * LINK_BYTES_PER_S)


def slow(clock: float, power: float) -> Vitals:
    return card(reasons=None, clock_hz=clock * 1.695e9, power_watts=power * 350.0)


def crowded(busy: float, delayed: float) -> Vitals:
    return replace(WATCHED, cores_used_fraction=busy, delayed_fraction=delayed)


# code, how the page says it, the run just within what is healthy, the run just beyond.
OF_RUNS = [
    ("input_starved", "at least 5% of the step", replace(WATCHED, wait_s=0.0049), replace(WATCHED, wait_s=0.0051)),
    (
        "throttled",
        "at least 5% of all samples under load",
        card(reasons={"power brake": 0.049}),
        card(reasons={"power brake": 0.051}),
    ),
    ("throttled", "below 90% of the boost clock", slow(0.91, 0.5), slow(0.89, 0.5)),
    ("throttled", "less than 95% of its power limit", slow(0.5, 0.96), slow(0.5, 0.94)),
    ("vram_spill", "at least 95% of its memory", spilling(full=0.94), spilling(full=0.96)),
    ("vram_spill", "at least a fifth of the PCIe bandwidth", spilling(0.19), spilling(0.21)),
    (
        "vram_spill",
        "at least twice as long as expected",
        replace(spilling(0.01), expected_s=0.051),
        replace(spilling(0.01), expected_s=0.049),
    ),
    ("power_limited", "at least 2% below", card(power_limit_watts=0.985 * 350), card(power_limit_watts=0.975 * 350)),
    ("shared_gpu", "at least 5% of the GPU's time", card(other_busy_fraction=0.049), card(other_busy_fraction=0.051)),
    ("shared_gpu", "at least 1 GB of its memory", card(other_memory_bytes=0.99e9), card(other_memory_bytes=1.01e9)),
    ("cpu_starved", "had to wait for at least 5% of the time", crowded(0.95, 0.049), crowded(0.95, 0.051)),
    ("cpu_starved", "at least 90% busy", crowded(0.89, 0.3), crowded(0.91, 0.3)),
    ("cpu_starved", "more loader workers than cores", replace(WATCHED, workers=8), replace(WATCHED, workers=9)),
]


@pytest.mark.parametrize(("code", "says", "within", "beyond"), OF_RUNS, ids=[f"{case[0]}: {case[1]}" for case in OF_RUNS])
def test_a_check_of_watched_runs_fires_from_where_its_page_states(code: str, says: str, within: Vitals, beyond: Vitals) -> None:
    assert says in sees(code)
    assert code not in [finding.code for finding in run_live_checks(within)[0]]
    assert code in [finding.code for finding in run_live_checks(beyond)[0]]


# ---------------------------------------------------------------- many GPUs, and predictions


def member(**changes: Any) -> Member:
    return Member(place="host 1", peers="job 7", assumed=False, vitals=replace(CARD, **changes))


@pytest.mark.parametrize(
    ("says", "within", "beyond"),
    [
        ("at least 5% below the median of its peers", {"clock_hz": 0.96 * 1.69e9}, {"clock_hz": 0.94 * 1.69e9}),
        ("busy for at least 10% less", {"busy_fraction": 0.91 * 0.95}, {"busy_fraction": 0.89 * 0.95}),
    ],
)
def test_a_gpu_that_is_slower_than_its_peers_is_named(says: str, within: dict[str, float], beyond: dict[str, float]) -> None:
    assert says in sees("straggler")
    assert straggler.check_peers([member(), member(), member(**within)]) == []
    assert [one.number for one in straggler.check_peers([member(), member(), member(**beyond)])] == [2]


def test_a_gpu_is_idle_below_5_percent_of_the_time() -> None:
    assert "less than 5% of the window" in sees("idle_gpu")
    assert check_member(member(busy_fraction=0.051)) is None
    assert check_member(member(busy_fraction=0.049)) is not None


def test_a_step_is_slow_only_above_the_range_that_was_predicted() -> None:
    expected = Expectation(model="m", gpu="g", step_s=0.05, low_s=0.04, high_s=0.06, setting="batch 1")
    assert [judge_step(step, expected) for step in (0.03, 0.05, 0.055, 0.06)] == [None] * 4
    assert isinstance(judge_step(0.0601, expected), Finding)
