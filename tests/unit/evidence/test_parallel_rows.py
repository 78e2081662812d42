"""Rows of `parallel.csv` become questions, or are counted with the reason why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwise import validate
from gpuwise.evidence.parallel import fit_of, parallel_fits, parallel_questions, score_parallel
from gpuwise.evidence.types import Table

ROW = {
    "source": "vtrain_single",
    "gpu": "A100",
    "gpu_count": "8",
    "model": "gpt",
    "task": "pretrain",
    "hidden": "1024",
    "heads": "16",
    "layers": "24",
    "seq": "1024",
    "tp": "2",
    "pp": "2",
    "dp": "2",
    "cp": "",
    "vp": "",
    "ep": "",
    "fsdp": "",
    "sharding": "none",
    "micro_batch": "4",
    "global_batch": "32",
    "precision": "fp16",
    "recompute": "True",
    "cpu_offload": "",
    "iteration_ms": "300",
}


def table(*rows: dict[str, str]) -> Table:
    return Table(kind="parallel", columns={name: tuple(row[name] for row in rows) for name in ROW})


def test_a_row_says_its_plan() -> None:
    (question,), reasons = parallel_questions(table(ROW))
    assert not reasons
    mesh = question.mesh
    assert (mesh.data, mesh.tensor, mesh.pipeline) == (2, 2, 2)
    assert (question.micro_batch, question.micro_count, question.zero, question.recompute) == (4, 4, 0, "full")
    assert question.gpu.name == "A100 SXM 80GB"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model": "Nemotron", "hidden": ""}, "the sizes of Nemotron are unknown"),
        ({"task": "lora"}, "lora trains only part"),
        ({"tp": "3"}, "does not match the plan"),
        ({"iteration_ms": ""}, "no step time"),
        ({"iteration_ms": "inf"}, "no step time"),
        ({"tp": "0"}, "no step time"),
        ({"seq": "long"}, "not a number"),
        ({"gpu_count": "many"}, "not a number"),
        ({"gpu": "Banana 9000"}, "unknown GPU Banana 9000"),
        ({"precision": "int2"}, "int2 matrix products are not modelled"),
    ],
)
def test_rows_that_cannot_be_asked_are_counted_with_the_reason(change: dict[str, str], reason: str) -> None:
    asked, reasons = parallel_questions(table(ROW, {**ROW, **change}))
    assert len(asked) == 1
    assert reason in next(iter(reasons))


def test_predictions_follow_the_plan() -> None:
    more = [{**ROW, "global_batch": str(size)} for size in (32, 64, 128)]
    asked, _ = parallel_questions(table(*more))
    seconds = [row.predicted_s for row in score_parallel(asked)]
    assert seconds[0] < seconds[1] < seconds[2]
    assert seconds[2] < 4 * seconds[0]  # filling the pipeline costs once


def test_a_plan_with_more_chunks_than_blocks_is_refused_and_the_other_rows_are_not(tmp_path: Path) -> None:
    rows = [ROW, {**ROW, "pp": "4", "vp": "12"}, {**ROW, "global_batch": "64"}]
    path = tmp_path / "parallel.csv"
    path.write_text("\n".join([",".join(ROW), *(",".join(row[name] for name in ROW) for row in rows)]), encoding="utf-8")
    answer = validate(path)
    assert [row.row for row in answer.residuals] == [0, 2]
    assert answer.skipped_rows == ((1, "24 blocks cannot be divided into 48 pipeline stages"),)


def test_a_source_of_the_same_family_is_run_alike() -> None:
    assert fit_of("vtrain_multi") == parallel_fits()["vtrain_single"]
    assert fit_of("somebody else").factor_of(parallel_questions(table(ROW))[0][0].gpu) == 1.0


def test_a_model_known_by_name_needs_no_sizes() -> None:
    row = {
        **ROW,
        "source": "megatron_bridge",
        "model": "LLAMA3_70B",
        "gpu": "H100 SXM 80GB",
        "gpu_count": "64",
        "tp": "4",
        "pp": "8",
    }
    row |= {"hidden": "", "heads": "", "layers": "", "seq": "8192", "vp": "5", "micro_batch": "1", "precision": "fp8"}
    (question,), _ = parallel_questions(table({**row, "global_batch": "128", "recompute": ""}))
    assert question.model.layers == 80
    assert question.dtype == "fp8"
    assert question.zero == 1
