"""`validate` with odd rows: each is left out for its own reason, nothing is chosen silently, and no result is overstated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuwise import validate
from gpuwise.core.errors import BadValue
from gpuwise.evidence.e2e import Question, questions
from gpuwise.evidence.score import cluster_of, score
from gpuwise.evidence.tables import read_table
from gpuwise.evidence.types import Residual
from gpuwise.hardware.types import supported
from gpuwise.questions.validate.answer import ValidateAnswer
from gpuwise.questions.validate.text import render
from gpuwise.surfaces.cli.app import app

COLUMNS = (
    "source gpu gpu_count model family mode precision batch_per_gpu image_or_seq samples_per_s step_ms "
    "framework framework_version stack layout optimizer unit note"
).split()
USUAL = {
    "source": "mine",
    "gpu": "RTX 3090",
    "gpu_count": "1",
    "model": "resnet50",
    "family": "resnet",
    "mode": "train",
    "precision": "amp",
    "batch_per_gpu": "64",
    "image_or_seq": "224",
    "step_ms": "80",
    "framework": "torch",
    "framework_version": "2.4",
    "stack": "eager",
    "layout": "nchw",
    "optimizer": "sgd",
}


def written(folder: Path, *changes: dict[str, str]) -> Path:
    rows = [{**USUAL, **change} for change in changes]
    path = folder / "e2e.csv"
    path.write_text("\n".join([",".join(COLUMNS), *(",".join(row.get(name, "") for name in COLUMNS) for row in rows)]) + "\n")
    return path


def answered(folder: Path, *changes: dict[str, str]) -> ValidateAnswer:
    return validate(written(folder, *changes))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"step_ms": "1e-320"}, "the measured value is out of range"),
        ({"gpu_count": "99999999"}, "a number of GPUs that is not between"),
        ({"gpu_count": "two"}, "a number of GPUs that is not a number"),
        ({"batch_per_gpu": "1000000000000"}, "a batch that cannot be run"),
        ({"batch_per_gpu": ""}, "no batch"),
        ({"image_or_seq": "big"}, "an image size or sequence length that is not a number"),
        ({"step_ms": "-12"}, "a step time that is not positive"),
        ({"step_ms": "nan"}, "a step time that is not positive"),
        ({"step_ms": ""}, "no step time"),
        ({"step_ms": "", "samples_per_s": "0"}, "a step time that is not positive"),
        ({"gpu": "GTX 1080", "precision": "bf16"}, "the GTX 1080 does not support bf16"),
        ({"gpu": "GTX 1080 Ti", "precision": "tf32"}, "the GTX 1080 Ti does not support tf32"),
    ],
)
def test_every_odd_row_has_its_own_reason(tmp_path: Path, change: dict[str, str], reason: str) -> None:
    answer = answered(tmp_path, {}, change)
    ((said, count),) = answer.skipped
    assert count == 1
    assert said.startswith(reason)


def test_a_step_is_worked_out_from_the_rate_of_all_gpus(tmp_path: Path) -> None:
    answer = answered(tmp_path, {"step_ms": "", "samples_per_s": "3200", "gpu_count": "4"})
    assert answer.residuals[0].measured_s == pytest.approx(64 * 4 / 3200)


@pytest.mark.parametrize("unit", ["", "images/s", "samples_per_s"])
def test_a_rate_of_samples_is_read_so(tmp_path: Path, unit: str) -> None:
    answer = answered(tmp_path, {"step_ms": "", "samples_per_s": "800", "unit": unit})
    assert answer.residuals[0].measured_s == pytest.approx(64 / 800)


def test_a_rate_of_tokens_is_no_rate_of_samples(tmp_path: Path) -> None:
    text = {"model": "bert-base-uncased", "image_or_seq": "128", "step_ms": "", "samples_per_s": "81920", "unit": "tokens/s"}
    assert answered(tmp_path, text).residuals[0].measured_s == pytest.approx(64 * 128 / 81920)


def test_a_rate_in_an_unknown_unit_is_left_out(tmp_path: Path) -> None:
    answer = answered(tmp_path, {}, {"step_ms": "", "samples_per_s": "800", "unit": "epochs/h"})
    assert answer.skipped_rows == ((1, "a rate in epochs/h, which is not understood"),)


def test_a_line_that_is_cut_off_is_left_out_and_empty_lines_are_no_rows(tmp_path: Path) -> None:
    path = written(tmp_path, {}, {})
    first, second, third = path.read_text().splitlines()
    path.write_text("\n".join([first, second, third[:14], "", third]) + "\n")
    answer = validate(path)
    assert [row.row for row in answer.residuals] == [0, 2]
    assert answer.skipped_rows == ((1, f"3 fields, not {len(COLUMNS)}"),)


def test_a_row_that_breaks_the_prediction_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaking(rows: list[Question], refused: dict[int, str]) -> list[Residual]:
        if any(row.batch == 3 for row in rows):
            raise IndexError("no such stage")
        return score(rows, refused=refused)

    monkeypatch.setattr("gpuwise.questions.validate.answer.score", breaking)
    answer = answered(tmp_path, {}, {"batch_per_gpu": "3"}, {"batch_per_gpu": "8"}, {"batch_per_gpu": "16"})
    assert [row.row for row in answer.residuals] == [0, 2, 3]
    assert answer.skipped_rows == ((1, "the step could not be predicted"),)


def test_a_rate_of_accumulated_gradients_gives_no_step(tmp_path: Path) -> None:
    answer = answered(tmp_path, {}, {"step_ms": "", "samples_per_s": "900", "note": "gradient accumulation 8192"})
    assert [reason for reason, _ in answer.skipped] == ["gradients accumulated over an unknown number of passes"]


def test_autocast_to_bf16_is_asked_as_predict_asks_it(tmp_path: Path) -> None:
    answer = answered(tmp_path, {"precision": "amp-bf16"})
    assert len(answer.residuals) == 1
    assert questions(read_table(written(tmp_path, {"precision": "amp-bf16"})))[0][0].request.settings.precision == "amp-bf16"


def test_every_shipped_row_is_in_a_precision_of_its_gpu() -> None:
    path = Path(__file__).parents[3] / "src/gpuwise/evidence/data/measurements.csv"
    asked, _ = questions(read_table(path), zoo_only=True)
    assert len(asked) > 800
    assert all(question.cells["precision"] in supported(question.gpu) for question in asked)


def test_nothing_predicted_is_an_error_with_the_reasons_counted(tmp_path: Path) -> None:
    path = written(tmp_path, {"gpu": "RTX 9999 Ultra"}, {"gpu": "RTX 9999 Ultra"}, {"step_ms": "-1"})
    done = CliRunner().invoke(app, ["validate", "--held-out", str(path)])
    assert done.exit_code != 0
    with pytest.raises(BadValue, match="none of the 3 rows") as caught:
        validate(path)
    assert "2 rows: unknown GPU RTX 9999 Ultra" in caught.value.message
    assert "1 row: a step time" in caught.value.message


def test_rows_that_are_all_given_as_measured_leave_nothing_to_score(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match="no rows are left to score"):
        validate(written(tmp_path, {}), measured_rows=1)


def test_models_without_a_workload_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwise.evidence.e2e.capture_many", lambda missing: [(request, None) for request in missing])
    names = [f"unet{place}" for place in range(8)]
    answer = answered(tmp_path, {}, *({"model": name} for name in [*names, names[0]]))
    (skipped,) = answer.to_dict()["skipped_reasons"]
    assert (skipped["count"], skipped["models"]) == (9, names)
    assert "unet0, unet1, unet2, unet3, unet4 and 3 more" in render(answer)


def test_a_name_that_could_mean_several_gpus_is_told_once(tmp_path: Path) -> None:
    answer = answered(tmp_path, {"gpu": "A100"}, {"gpu": "A100", "batch_per_gpu": "32"}, {})
    (note,) = answer.to_dict()["assumptions"]
    assert note["name"] == "gpu 'A100'"
    assert note["value"] == answer.residuals[0].gpu
    assert "A100 PCIe" in note["effect"]
    assert "gpu 'A100'" in render(answer)


def test_by_model_is_by_model_and_by_family_by_family(tmp_path: Path) -> None:
    answer = answered(tmp_path, {}, {"model": "resnet18"})
    assert set(answer.by["model"]) == {"resnet50", "resnet18"}
    assert set(answer.by["family"]) == {"resnet"}
    assert "resnet18" in render(answer, by="model")


def test_rows_of_a_source_and_gpu_in_the_fit_are_said_to_be_in_sample(tmp_path: Path) -> None:
    fitted = {"source": "timm", "framework_version": "2.4.0"}
    answer = answered(tmp_path, {}, fitted, {**fitted, "gpu": "RTX 3080"})
    assert answer.in_sample == 1
    assert answer.to_dict()["in_sample"] == 1
    assert "1 of 3 rows" in {note.value for note in answer.assumptions if note.name == "in sample"}
    assert "1 of them in sample" in render(answer)
    assert "in sample" not in render(answered(tmp_path, {}))


def test_json_still_has_the_keys_of_the_contract(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["validate", "--held-out", str(written(tmp_path, {}, {"step_ms": ""})), "--json"])
    found = json.loads(done.stdout)
    assert found["skipped"] == [{"row": 1, "reason": "no step time", "count": 1}]  # by row, and still to be summed by reason
    assert found["skipped_reasons"] == [{"reason": "no step time", "count": 1, "models": []}]
    assert {"gpu", "family", "source"} <= set(found["by"])


@pytest.mark.parametrize(
    ("change", "link"),
    [
        ({"gpu_count": "2"}, "PCIe 4.0 x8"),
        ({"gpu_count": "2", "note": "NVLink bridge"}, "NVLink 3 bridge (RTX 3090)"),
        ({"gpu_count": "2", "source": "lambda_tf"}, "NVLink 3 bridge (RTX 3090)"),  # as the constants were fitted
        ({"gpu_count": "4", "source": "lambda_tf"}, "PCIe 4.0 x16"),
        ({"gpu_count": "2", "source": "lambda_tf", "gpu": "RTX 4090"}, "PCIe 4.0 x8"),
    ],
)
def test_rows_are_joined_as_predict_joins_them_unless_they_or_the_fit_say_a_bridge(
    tmp_path: Path, change: dict[str, str], link: str
) -> None:
    (question,), _ = questions(read_table(written(tmp_path, change)))
    assert cluster_of(question).gpu_link.name == link
