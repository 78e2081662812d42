"""Runs on several GPUs with a known culprit: every GPU has a row, collectives are matched one by one, and the cause is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import gpuwise
from gpuwise.diagnose.classes import kernel_class
from gpuwise.diagnose.registry import run_checks
from gpuwise.diagnose.types import Finding
from gpuwise.questions.common.diagnosis import WhyAnswer
from making_ranks import (
    Delay,
    chrome_of_one_process,
    compute,
    lockstep,
    meet,
    nsys_of_processes,
    write_each,
    xplane_of,
)
from making_traces import ALL_REDUCE, HGEMM, RELU, Run

OFFSETS = (0.0, 400_000.0, -250_000.0, 90_000.0)  # microseconds: the hosts' clocks are this far apart
DELAYS = {
    "input_wait": Delay(load_us=3000.0),
    "host_launch": Delay(think_us=3000.0),
    "slower": Delay(slower=1.3),
    "more": Delay(more_kernels=6),
}
WORDS = {
    "input_wait": "data loader",
    "host_launch": "its host",
    "slower": "kernels are slower",
    "more": "runs more kernels",
}
ONE_FILE: dict[str, Callable[[Sequence[Run], Path], Path]] = {
    "made.json": chrome_of_one_process,
    "made.sqlite": nsys_of_processes,
    "made.pb": xplane_of,
}


def straggler(answer: WhyAnswer) -> Finding | None:
    return next((finding for finding in answer.findings if finding.code == "straggler"), None)


# ---------------------------------------------------------------- a row for each


@pytest.mark.parametrize("name", ONE_FILE)
def test_every_gpu_of_a_file_has_a_row(name: str, tmp_path: Path) -> None:
    answer = gpuwise.why([str(ONE_FILE[name](lockstep(3, {1: Delay(load_us=3000.0)}), tmp_path / name))])
    rows = answer.to_dict()["gpus"]
    assert [row["index"] for row in rows] == [0, 1, 2]
    assert [row["busy_fraction"] for row in rows] == pytest.approx([1.0, 0.77, 1.0], abs=0.02)
    assert [row["communication_s"] for row in rows] == pytest.approx([3.3e-3, 0.3e-3, 3.3e-3], rel=0.05)
    assert answer.files == (name,)
    assert "GPU 1" in str(answer)


@pytest.mark.parametrize("name", ONE_FILE)
def test_the_late_gpu_of_a_file_is_named_with_what_it_costs(name: str, tmp_path: Path) -> None:
    answer = gpuwise.why([str(ONE_FILE[name](lockstep(3, {1: Delay(load_us=3000.0)}), tmp_path / name))])
    found = straggler(answer)
    assert found is not None
    assert found.title.startswith("the other GPUs wait for GPU 1 in collectives")
    assert found.seconds_per_step == pytest.approx(3.0e-3, rel=0.05)


def test_of_processes_in_one_file_each_has_its_own_loader(tmp_path: Path) -> None:
    answer = gpuwise.why([str(nsys_of_processes(lockstep(2, {1: Delay(load_us=3000.0)}), tmp_path / "made.sqlite"))])
    assert [row["loader_fraction"] for row in answer.to_dict()["gpus"]] == pytest.approx([0.0, 0.225], abs=0.02)
    found = straggler(answer)
    assert found is not None
    assert "waits for its data loader" in found.title


def test_a_gpu_that_hardly_works_has_a_row_and_is_not_waited_for(tmp_path: Path) -> None:
    runs = lockstep(2, {})
    idle = Run()
    idle.launch(RELU, 5.0)
    idle.launch(ALL_REDUCE, 1.0)
    answer = gpuwise.why([str(chrome_of_one_process([*runs, idle], tmp_path / "made.json"))])
    assert len(answer.to_dict()["gpus"]) == 3
    assert straggler(answer) is None
    assert answer.view.scene.device.index in (0, 1)


def test_one_gpu_has_one_row(tmp_path: Path) -> None:
    rows = gpuwise.why(write_each(lockstep(1, {}), tmp_path)).to_dict()["gpus"]
    assert [(row["gpu"], row["rank"], row["last_fraction"]) for row in rows] == [("V100 SXM 32GB", 0, None)]
    assert rows[0]["step_s"] == pytest.approx(10.3e-3, rel=0.02)


# ---------------------------------------------------------------- who is late, and why


@pytest.mark.parametrize("part", DELAYS)
def test_the_late_rank_is_told_with_its_cause_whatever_the_clocks_say(part: str, tmp_path: Path) -> None:
    answer = gpuwise.why(write_each(lockstep(4, {2: DELAYS[part]}, offsets_us=OFFSETS), tmp_path))
    found = straggler(answer)
    assert found is not None
    assert "rank 2" in found.title
    assert WORDS[part] in found.title
    assert found.seconds_per_step == pytest.approx(3.0e-3, rel=0.05)
    assert found.gain.low <= 13.3 / 10.3 * 1.01
    assert found.gain.high == pytest.approx(13.3 / 10.3, rel=0.03)
    assert any("last to reach 5 of 5 collectives" in line for line in found.evidence)


def test_the_checks_of_the_late_rank_say_what_to_do(tmp_path: Path) -> None:
    found = straggler(gpuwise.why(write_each(lockstep(4, {2: DELAYS["input_wait"]}), tmp_path)))
    assert found is not None
    assert any("input_starved" in line for line in found.evidence)
    assert found.remedy.startswith("on rank 2, ")
    assert "workers" in found.remedy


def test_ranks_that_come_together_have_no_straggler(tmp_path: Path) -> None:
    answer = gpuwise.why(write_each(lockstep(4, {}, offsets_us=OFFSETS), tmp_path))
    assert straggler(answer) is None
    assert answer.to_dict()["collectives"] == []


def test_each_collective_names_the_rank_that_comes_last_to_it(tmp_path: Path) -> None:
    runs = lockstep(3, {}, steps=0)
    for step in range(4):
        begins = [run.host_us for run in runs]
        for late, transfer in ((1, 200.0), (2, 400.0)):
            for rank, run in enumerate(runs):
                compute(run, Delay(think_us=2000.0 if rank == late else 0.0), 10, 300.0)
            meet(runs, transfer)
            for run in runs:
                run.host_us = max(run.free_us.values())
        for run, begin in zip(runs, begins, strict=True):
            run.mark(f"ProfilerStep#{step}", begin, run.host_us)
    rows = gpuwise.why(write_each(runs, tmp_path)).to_dict()["collectives"]
    told = {row["place_in_step"]: (row["last_rank"], row["last_fraction"], round(row["waited_s"], 4)) for row in rows}
    assert told == {1: (1, 1.0, 0.002), 2: (2, 1.0, 0.002)}


def grouped(folder: Path, named: bool) -> WhyAnswer:
    """Two groups of two ranks; rank 1 is late for rank 0, the ranks 2 and 3 come together but later than both."""
    runs = lockstep(4, {}, steps=0)
    for step in range(5):
        begins = [run.host_us for run in runs]
        for rank, run in enumerate(runs):
            compute(run, Delay(think_us=2000.0 if rank == 1 else 0.0), 20, 300.0 if rank < 2 else 420.0)
        for first in (0, 2):
            told: dict[str, Any] = {"Collective name": "allreduce", "Process Group Ranks": f"[{first}, {first + 1}]"}
            meet(runs[first : first + 2], 200.0, **(told | {"In msg nelems": 1000} if named else {}))
        for run, begin in zip(runs, begins, strict=True):
            run.host_us = max(run.free_us.values())
            run.mark(f"ProfilerStep#{step}", begin, run.host_us)
    return gpuwise.why(write_each(runs, folder))


def test_collectives_are_matched_within_their_process_group(tmp_path: Path) -> None:
    rows = grouped(tmp_path, named=True).to_dict()
    assert [(row["collective"], row["last_rank"]) for row in rows["collectives"]] == [("allreduce [0, 1]", 1)]
    assert [row["last_fraction"] for row in rows["gpus"]] == [0.0, 1.0, 0.0, 0.0]


def test_a_rank_that_misses_a_collective_is_matched_step_by_step(tmp_path: Path) -> None:
    runs = lockstep(3, {1: DELAYS["host_launch"]})
    first = next(event for event in runs[0].events if event["name"] == ALL_REDUCE)
    runs[0].events.remove(first)
    found = straggler(gpuwise.why(write_each(runs, tmp_path)))
    assert found is not None
    assert "rank 1" in found.title
    assert any("of 4 collectives" in line for line in found.evidence)


def test_a_late_rank_costs_the_median_wait_where_no_collective_matches(tmp_path: Path) -> None:
    """Ranks that name their collectives differently: only the totals can be compared. The others wait 2, 3 and 6 ms."""
    runs = lockstep(4, {0: Delay(think_us=4000.0), 1: Delay(think_us=3000.0), 2: Delay(think_us=6000.0)})
    for rank, run in enumerate(runs):
        for event in run.events:
            event["name"] = event["name"].replace(ALL_REDUCE, f"ncclDevKernel_AllReduce_Sum_f32_RING_{rank}(ncclDevComm*)")
    found = straggler(gpuwise.why(write_each(runs, tmp_path)))
    assert found is not None
    assert "rank 2" in found.title
    assert found.seconds_per_step == pytest.approx(3e-3, rel=0.05)


def test_a_wait_that_other_kernels_hide_is_not_lost(tmp_path: Path) -> None:
    runs = lockstep(2, {}, steps=0)
    for step in range(5):
        begins = [run.host_us for run in runs]
        for rank, run in enumerate(runs):
            run.think(3000.0 * rank)
            run.launch(HGEMM, 500.0)
            run.free_us.setdefault(20, 0.0)
        starts = [run.host_us + 8.0 for run in runs]
        end = max(starts) + 200.0
        for run, start in zip(runs, starts, strict=True):
            run.launch(ALL_REDUCE, end - start, stream=20)
            run.launch(HGEMM, 8000.0)
        for run, begin in zip(runs, begins, strict=True):
            run.host_us = max(max(other.free_us.values()) for other in runs)
            run.mark(f"ProfilerStep#{step}", begin, run.host_us)
    assert straggler(gpuwise.why(write_each(runs, tmp_path))) is None


# ---------------------------------------------------------------- what counts as communication


@pytest.mark.parametrize(
    "name",
    [
        "void deep_ep::internode::dispatch<false, 8, false>(int4*, float*)",
        "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(int)",
        "deep_ep::internode_ll::dispatch<true, false, 7168>(void*)",
        "void deep_ep::intranode::notify_dispatch<8>(int const*)",
        "void tensorrt_llm::kernels::moe_a2a::moeA2ADispatchKernel<16>(int)",
        "pplx::AllToAllInterNodeDispatch",
        "nvshmemi_transfer_rma_nbi",
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>",
        "flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport",
        "all-to-all.3",
        "void transformer_engine::userbuffers_fp16_sum_inplace_gpu_rr_rs<8>",
    ],
)
def test_what_hands_data_to_other_gpus_is_communication(name: str) -> None:
    assert kernel_class(name) == "communication"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("void cutlass::device_kernel<moe_gemm_combine>", "matmul"),
        ("void at::native::(anonymous namespace)::indexSelectLargeIndex", "embedding"),
        ("fused_moe_kernel_gptq_awq", "matmul"),
        ("void vllm::moe::topkGatingSoftmax<8>", "norm"),
        ("deepgemm_fp8_gemm_nt", "matmul"),
        ("void mul_mat_q<(ggml_type)12, 64, 8, true>(char const*, char const*, float*)", "matmul"),
        ("void mul_mat_vec_q<(ggml_type)12, 1>(void const*, void const*, float*)", "matmul"),
        ("void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128, 16>>(SSMParamsBase)", "attention"),
        ("void soft_max_f32<true, 1024, 1024>(float const*)", "norm"),
        ("void gatherTopK<float, unsigned int, 2, false>", "embedding"),
    ],
)
def test_what_stays_on_one_gpu_is_not(name: str, kind: str) -> None:
    assert kernel_class(name) == kind


# ---------------------------------------------------------------- streams that overlap


def test_parts_and_shares_of_overlapped_streams_never_exceed_the_step(tmp_path: Path) -> None:
    run = Run(free_us=dict.fromkeys((7, 8, 9, 20), 0.0))
    for step in range(4):
        begin = run.host_us
        for _ in range(10):
            for stream, name in ((7, "volta_sgemm_128x64_nn"), (8, "volta_sgemm_64x64_nt"), (9, RELU)):
                run.launch(name, 900.0, stream=stream)
            run.launch(ALL_REDUCE, 850.0, stream=20)
        run.host_us = max(run.free_us.values())
        run.mark(f"ProfilerStep#{step}", begin, run.host_us)
    answer = gpuwise.why([str(run.write(tmp_path / "made.json"))])
    parts = answer.view.parts
    assert sum(parts.parts_s.values()) == pytest.approx(parts.step_s, rel=1e-9)
    assert parts.parts_s["matmul"] == pytest.approx(0.99 * parts.step_s, rel=0.02)
    assert parts.hidden_communication_s == pytest.approx(8.5e-3, rel=0.02)
    assert answer.view.whole.busy_fraction <= 1.0
    found = run_checks(answer.ranks, None)[0]
    assert found
    assert all(finding.share_fraction <= 1.0 for finding in found)
    assert all(row["busy_fraction"] <= 1.0 for row in answer.to_dict()["gpus"])
