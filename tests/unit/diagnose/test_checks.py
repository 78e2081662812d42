"""Each check fires on the run that has its problem, and on no healthy one."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import gpuwise
from gpuwise.core.errors import BadFile
from gpuwise.diagnose import checks, compare
from gpuwise.diagnose.registry import CODES
from making_traces import HGEMM, RELU, SGEMM, Run, training

AMPERE = {
    "id": 0,
    "name": "NVIDIA A100-SXM4-80GB",
    "totalGlobalMem": 84_990_623_744,
    "computeMajor": 8,
    "computeMinor": 0,
    "numSms": 108,
}
FOLDER = Path(checks.__file__).parent


def graphs() -> Run:
    run = Run()
    for step in range(4):
        begin = run.host_us
        for _ in range(20):
            run.correlation += 1
            run.span("cuda_runtime", "cudaGraphLaunch", run.host_us, 5.0, correlation=run.correlation)
            start = max(run.host_us, run.free_us.get(7, 0.0)) + 300.0
            run.span("kernel", HGEMM, start, 100.0, device=0, stream=7, correlation=run.correlation)
            run.free_us[7] = start + 100.0
            run.host_us += 10.0
        run.host_us = run.free_us[7]
        run.mark(f"ProfilerStep#{step}", begin, run.host_us)
    return run


def data_parallel() -> Run:
    run = training()
    run.mark("DataParallel.forward", 10.0, 20.0)
    return run


def old_kernels() -> Run:
    return training(Run(gpu=AMPERE), name="volta_h884gemm_128x128_ldg8_f2f_nn")


SICK: dict[str, Run] = {
    "input_starved": training(load_us=5000.0),
    "single_process_loader": training(load_us=5000.0, workers=False),
    "exposed_h2d": training(copy_us=2000.0),
    "pageable_copies": training(copy_us=20_000.0),
    "launch_bound": training(kernels=200, kernel_us=4.0, gap_us=15.0),
    "small_model": training(kernels=200, kernel_us=4.0, gap_us=15.0),
    "host_sync": training(sync=True),
    "fp32_matmul": training(name=SGEMM),
    "tf32_off": training(Run(gpu=AMPERE), name="ampere_sgemm_128x64_nn"),
    "old_arch_kernels": old_kernels(),
    "misaligned_shapes": training(Run(gpu=AMPERE), name="cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1"),
    "bandwidth_bound": training(name=RELU),
    "unfused_optimizer": training(optimizer_kernels=600, gap_us=8.0),
    "layout_transposes": training(name="nchwToNhwcKernel<half>"),
    "allocator_churn": training(malloc_us=700.0),
    "exposed_comm": training(Run(rank=0, world_size=2), reduce_us=3000.0),
    "wrong_backend": data_parallel(),
}


def codes(run: Run, folder: Path, **options: Any) -> list[str]:
    answer = gpuwise.why([str(run.write(folder / "made.json"))], **options)
    return [finding.code for finding in answer.findings]


@pytest.mark.parametrize("code", SICK)
def test_the_problem_is_found(code: str, tmp_path: Path) -> None:
    assert code in codes(SICK[code], tmp_path)


def test_small_grids_are_found(tmp_path: Path) -> None:
    run = training()
    for event in run.events:
        if "blocks per SM" in event["args"]:
            event["args"]["blocks per SM"] = 0.1
    assert "small_grids" in codes(run, tmp_path)


def test_idle_time_around_cuda_graphs_is_told_with_low_confidence(tmp_path: Path) -> None:
    answer = gpuwise.why([str(graphs().write(tmp_path / "made.json"))])
    top = answer.findings[0]
    assert (top.code, top.confidence, top.gain.low) == ("launch_bound", "low", 1.0)


def test_a_healthy_run_has_no_finding_above_minor(tmp_path: Path) -> None:
    answer = gpuwise.why([str(training().write(tmp_path / "made.json"))])
    assert [finding.code for finding in answer.findings if finding.severity != "minor"] == []
    assert answer.verdict.startswith("healthy")


def test_every_gain_is_a_range_of_speed_ups(tmp_path: Path) -> None:
    for run in SICK.values():
        for finding in gpuwise.why([str(run.write(tmp_path / "made.json"))]).findings:
            assert 1.0 <= finding.gain.low <= finding.gain.high < 25.0, finding.code
            assert 0.0 <= finding.share_fraction <= 1.0 + 1e-9, finding.code
            assert finding.evidence
            assert finding.remedy
            assert finding.verify


def test_each_check_is_one_file_and_registered() -> None:
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert files == set(CODES)
    assert len(CODES) == len(set(CODES))


@pytest.mark.parametrize("code", CODES)
def test_what_is_run_on_every_trace_asks_for_a_view_alone(code: str) -> None:
    module = importlib.import_module(f"gpuwise.diagnose.checks.{code}")
    assert code == module.CODE
    if hasattr(module, "check"):
        assert inspect.get_annotations(module.check)["view"] == "View"
        assert list(inspect.signature(module.check).parameters) == ["view"]
    else:
        assert any(name.startswith("check_") for name in module.__all__)


@pytest.mark.parametrize("code", CODES)
def test_each_check_explains_itself_under_fixed_headings(code: str) -> None:
    text = (FOLDER / f"{code}.py").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["What it detects", "Why it costs time", "What to do", "Confidence"]


def ranks(folder: Path, late: int, world: int = 4, steps: int = 4) -> list[str]:
    paths = []
    for number in range(world):
        run = training(Run(rank=number, world_size=world), steps=steps, reduce_us=500.0 if number == late else 3000.0)
        paths.append(str(run.write(folder / f"rank{number}.json")))
    return paths


def test_the_late_rank_is_named(tmp_path: Path) -> None:
    answer = gpuwise.why(ranks(tmp_path, late=2))
    finding = next(finding for finding in answer.findings if finding.code == "straggler")
    assert "rank 2" in finding.title
    assert answer.missing == ()


def test_missing_ranks_are_named(tmp_path: Path) -> None:
    answer = gpuwise.why(ranks(tmp_path, late=2)[:3])
    assert answer.missing == (3,)


def test_one_rank_of_several_cannot_tell_stragglers(tmp_path: Path) -> None:
    answer = gpuwise.why(ranks(tmp_path, late=2)[:1])
    assert "straggler" in [entry.code for entry in answer.abstained]


def test_of_several_files_one_that_cannot_be_read_is_skipped_and_named(tmp_path: Path) -> None:
    paths = ranks(tmp_path, late=2)
    Path(paths[1]).write_text("no trace", encoding="utf-8")
    answer = gpuwise.why([str(tmp_path)])
    assert answer.missing == (1,)
    assert any("rank1.json" in note for note in answer.notes)
    with pytest.raises(BadFile, match=r"file '.*typo.json' not found"):
        gpuwise.why([paths[0], str(tmp_path / "typo.json")])


def test_ranks_of_two_runs_are_refused(tmp_path: Path) -> None:
    one = training(Run(rank=0, world_size=2)).write(tmp_path / "a.json")
    twin = training(Run(rank=0, world_size=2)).write(tmp_path / "b.json")
    other = training(Run(rank=1, world_size=4)).write(tmp_path / "c.json")
    later = training(Run(rank=1, world_size=2, begin_us=1_700_000_000_000_000.0)).write(tmp_path / "d.json")
    for second, says in ((twin, "more than once"), (other, "world sizes differ"), (later, "same time")):
        with pytest.raises(BadFile, match=says):
            gpuwise.why([str(one), str(second)])


def test_compare_checks_that_like_is_compared_with_like(tmp_path: Path) -> None:
    slow = training(name=SGEMM, kernel_us=900.0).write(tmp_path / "slow.json")
    fast = training(Run(gpu=AMPERE), kernel_us=300.0).write(tmp_path / "fast.json")
    found = gpuwise.why([str(slow)], compare=str(fast)).difference
    assert found is not None
    assert found.speed_up == pytest.approx(3.0, rel=0.05)
    assert any("fp32" in text for text in found.unlike)
    matmul = next(part for part in found.parts if part.part == "matmul")
    assert matmul.promised is not None
    assert matmul.promised > 10


def test_a_slower_step_than_predicted_is_told_last(tmp_path: Path) -> None:
    run = training(kernel_us=20_000.0, load_us=50_000.0)
    assert codes(run, tmp_path, model="resnet50")[-1] == "slower_than_expected"


def test_json_has_the_keys_of_the_contract(tmp_path: Path) -> None:
    answer = gpuwise.why([str(SICK["input_starved"].write(tmp_path / "made.json"))]).to_dict()
    wanted = {"files", "gpu", "step_s", "busy_fraction", "verdict", "findings", "abstained", "ranks", "assumptions", "data_date"}
    assert wanted <= set(answer)
    keys = "code title seconds_per_step share_fraction gain_low gain_high confidence evidence remedy verify".split()
    assert set(keys) <= set(answer["findings"][0])
    assert set(answer["abstained"][0]) == {"code", "reason", "record_next"}


def test_what_a_trace_holds_is_escaped_in_html(tmp_path: Path) -> None:
    from gpuwise.questions.why.text import render_html

    run = Run(gpu={**AMPERE, "name": "<script>alert(1)</script>", "numSms": 7})
    answer = gpuwise.why([str(training(run, name=SGEMM).write(tmp_path / "<b>.json"))])
    page = render_html(answer)
    assert "<script>" not in page
    assert "alert(1)" in page  # the name is there, as text
    assert page.count("<script") == 1  # the page's own


def test_what_a_trace_holds_cannot_steer_the_terminal(tmp_path: Path) -> None:
    from gpuwise.questions.why.text import render

    run = training(Run(gpu={**AMPERE, "name": "\x1b[2Jgone", "numSms": 7}), sync=True)
    for event in run.events:
        event["name"] = event["name"].replace("cudaDeviceSynchronize", "cudaDeviceSynchronize\x1b]0;x\x07")
    assert "\x1b" not in render(gpuwise.why([str(run.write(tmp_path / "made.json"))]))


@pytest.mark.parametrize(
    ("speed_up", "says"), [(0.4, "more than the rate suggests"), (0.1, "as the rate suggests"), (0.05, "less than the rate")]
)
def test_a_part_is_held_against_its_promise_from_both_sides(speed_up: float, says: str) -> None:
    assert compare._why("matmul", speed_up, 0.1, "rate").startswith(says)
