"""Real traces against facts computed from them by a script that shares no code with this project (`../shared/traces`)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gpuwise
from gpuwise.questions.common.diagnosis import WhyAnswer

TRACES = Path(__file__).parents[3] / "shared" / "traces"
README = TRACES / "README.md"
STEP, POINTS, NAME_POINTS = 0.01, 0.02, 0.03

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not README.exists(), reason="the shared traces are not here")]


def table(heading: str) -> dict[str, list[str]]:
    if not README.exists():
        return {}
    text = README.read_text(encoding="utf-8").partition(f"## {heading}")[2].partition("\n## ")[0]
    return {
        found[1]: [cell.strip() for cell in found[2].split("|")]
        for found in re.finditer(r"^\| `([^`]+)` \| (.*) \|$", text, re.M)
    }


TIME, KERNELS = table("Facts: time"), table("Facts: kernels and copies")
_answers: dict[str, WhyAnswer] = {}


def why(name: str) -> WhyAnswer:
    if name not in _answers:
        _answers[name] = gpuwise.why([str(TRACES / name)])
    return _answers[name]


def percent(text: str) -> float | None:
    found = re.match(r"([\d.]+)%", text)
    return float(found[1]) / 100 if found else None


@pytest.mark.parametrize("name", TIME)
def test_step_time_and_shares_agree(name: str) -> None:
    row, answer = TIME[name], why(name)
    facts = answer.view.whole
    found = re.match(r"([\d.]+)", row[1])
    if found:
        assert answer.view.scene.steps.median_s * 1e3 == pytest.approx(float(found[1]), rel=STEP)
    shares = {3: facts.busy_fraction, 7: facts.kernel_fraction, 8: facts.copy_fraction, 9: facts.loader_fraction}
    shares |= {5: facts.outside_fraction, 6: facts.span_busy_fraction}
    shares |= {10: facts.allocation_fraction, 11: facts.sync_fraction}
    for column, share in shares.items():
        told = percent(row[column])
        if told is not None:
            assert share == pytest.approx(told, abs=POINTS), column
    idle = re.search(r"\(([\d.]+)%\)", row[9])
    if idle:
        assert facts.loader_idle_fraction == pytest.approx(float(idle[1]) / 100, abs=POINTS)


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_shares_and_communication_agree(name: str) -> None:
    row, scene, facts = KERNELS[name], why(name).view.scene, why(name).view.whole
    kernels = scene.trace.events.where(scene.trace.events.kind == 0)
    assert len(kernels) == int(row[0])
    total = float(scene.work.duration_ns[scene.kernels].sum())
    for column, unit in ((3, "matrix"), (4, "fp32"), (5, "unknown")):
        share = float(scene.work.duration_ns[scene.is_unit(unit)].sum()) / total
        assert share == pytest.approx(percent(row[column]), abs=NAME_POINTS), unit
    share = float(scene.work.duration_ns[scene.is_class("communication")].sum()) / total
    assert share == pytest.approx(percent(row[6]), abs=POINTS)
    assert facts.communication_exposed_fraction == pytest.approx(percent(row[9]), abs=POINTS)


def codes(name: str) -> list[str]:
    return [finding.code for finding in why(name).findings]


def test_the_slow_loader_ranks_first_and_its_gain_covers_what_was_realised() -> None:
    top = why("kineto_resnet50_nw0_v100.json.gz").findings[0]
    assert top.code == "input_starved"
    assert top.gain.low <= 1.25
    assert 1.39 <= top.gain.high < 1.6


def test_known_facts_are_found() -> None:
    assert "fp32_matmul" in codes("kineto_resnet50_nw4_v100.json.gz")
    assert "input_starved" not in codes("kineto_resnet50_nw4_v100.json.gz")
    assert codes("param_resnet_rtx2080ti.json.gz")[0] == "input_starved"
    assert "pageable_copies" in codes("param_resnet_rtx2080ti.json.gz")
    assert codes("hta_recsys_a100_rank0of16.json.gz")[0] == "launch_bound"
    for name in ("hta_allreduce_v100_rank1of2.json.gz", "hta_recsys_pair_a100_rank3of8.json.gz"):
        assert "exposed_comm" in codes(name)
    assert codes("tracelens_resnet18_nopool_mi300x.json.gz")[0] == "allocator_churn"
    assert codes("nsys_fastvideo_h100_2gpu.sqlite")[0] == "exposed_h2d"


def test_what_is_bound_by_the_gpu_gets_no_input_or_launch_finding() -> None:
    for name in ("tracelens_qwen0.5b_h100.json.gz", "tracelens_qwen0.5b_mi300x.json.gz"):
        assert not {"input_starved", "launch_bound", "small_model"} & set(codes(name))


def test_a_fragment_is_no_basis_for_a_verdict() -> None:
    answer = why("xprof_tf_bert_v100_8gpu.xplane.pb")
    assert answer.findings == ()
    assert answer.verdict.startswith("no verdict")


def test_the_latest_rank_of_eight_is_named() -> None:
    answer = gpuwise.why([str(TRACES / "param_dlrm_v100_rank*.json.gz")])
    assert len(answer.ranks) == 8
    assert answer.missing == ()
    finding = next(finding for finding in answer.findings if finding.code == "straggler")
    assert "rank 7" in finding.title


def test_the_pair_is_explained_by_the_loader() -> None:
    answer = gpuwise.why(
        [str(TRACES / "kineto_resnet50_nw0_v100.json.gz")], compare=str(TRACES / "kineto_resnet50_nw4_v100.json.gz")
    )
    assert answer.difference is not None
    assert answer.difference.speed_up == pytest.approx(1.39, abs=0.01)
    assert answer.difference.parts[0].part == "input_wait"
