"""Tables of what people run today: every row is predicted in its own unit, or left out with its reason."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuwise import validate
from gpuwise.questions.validate.answer import ValidateAnswer
from gpuwise.surfaces.cli.app import app

COLUMNS = (
    "source origin licence gpu gpu_as_written gpu_count model mode precision quantisation stack batch size value unit note"
).split()
TRAINING = {
    "source": "mine",
    "gpu": "RTX 3090",
    "gpu_count": "1",
    "model": "ResNet-50",
    "mode": "train",
    "precision": "amp fp16",
    "stack": "PyTorch 2.4, Linux",
    "batch": "64",
    "size": "224",
    "value": "80",
    "unit": "ms_per_step",
}
DECODING = {**TRAINING, "model": "Llama-3-8B", "mode": "decode", "precision": "bf16", "batch": "4", "gpu": "A100 SXM 80GB"}
DECODING |= {"size": "512+256", "value": "200", "unit": "tokens_per_s", "stack": "transformers 4.46 + torch 2.4"}


def written(folder: Path, *rows: dict[str, str]) -> Path:
    path = folder / "today_mine.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


def answered(folder: Path, *rows: dict[str, str]) -> ValidateAnswer:
    return validate(written(folder, *rows))


def test_a_step_and_a_rate_are_the_same_prediction_in_their_own_units(tmp_path: Path) -> None:
    answer = answered(tmp_path, TRAINING, {**TRAINING, "value": "800", "unit": "samples_per_s"})
    step, rate = answer.to_dict()["residuals"]
    assert (step["unit"], step["measured"]) == ("ms_per_step", pytest.approx(80.0))
    assert (rate["unit"], rate["measured"]) == ("samples_per_s", pytest.approx(800.0))
    assert rate["predicted"] == pytest.approx(64e3 / step["predicted"])
    assert rate["low"] == pytest.approx(64e3 / step["high"])
    assert step["low"] < step["predicted"] < step["high"]
    assert rate["low"] < rate["predicted"] < rate["high"]


def test_a_precision_that_is_only_allowed_is_used_where_a_gpu_has_it(tmp_path: Path) -> None:
    rows = [{**TRAINING, "gpu": gpu, "precision": said} for gpu in ("T4", "RTX 3090") for said in ("fp32 (TF32 allowed)", "fp32")]
    old, plain_old, new, plain_new = (row["predicted"] for row in answered(tmp_path, *rows).to_dict()["residuals"])
    assert old == plain_old
    assert new < plain_new


def test_a_score_whose_scale_is_known_counts_as_a_rate_though_its_row_has_doubts(tmp_path: Path) -> None:
    scored = {**TRAINING, "source": "gpu_insights", "model": "ResNet-50 (CIFAR, 32 px)", "size": "32", "unit": "samples_per_s"}
    scored |= {"value": "1400", "stack": "torch.compile where supported", "note": "score 28000 / 20; ver1; DO NOT USE: scale"}
    rows = [scored, {**scored, "note": "score 28000 / 20; ver2; DO NOT USE: scale"}, {**scored, "source": "mine"}]
    answer = answered(tmp_path, *rows).to_dict()
    eager, compiled = answer["residuals"]
    (doubted,) = answer["skipped"]
    assert eager["measured"] == pytest.approx(1400.0)
    assert 0.7 < eager["predicted"] / eager["measured"] < 1.4
    assert compiled["predicted"] > eager["predicted"]
    assert doubted["row"] == 2


def test_tokens_are_those_of_all_sequences_of_a_step(tmp_path: Path) -> None:
    prefill = {**DECODING, "mode": "prefill", "size": "512", "batch": "2"}
    answer = answered(tmp_path, DECODING, {**DECODING, "value": "20", "unit": "ms_per_step"}, prefill)
    rate, step, prompt = (entry.shown()["predicted"] for entry in answer.residuals)
    assert rate == pytest.approx(4e3 / step)
    assert prompt == pytest.approx(2 * 512 / answer.residuals[2].predicted_s)


def test_an_iteration_of_diffusion_is_two_passes_an_image(tmp_path: Path) -> None:
    row = {**TRAINING, "model": "Stable Diffusion 1.5", "mode": "infer", "precision": "fp16", "size": "512 (default, not stated)"}
    row |= {"unit": "it_per_s", "value": "20", "stack": "SD.next, torch 2.5.1, diffusers, Linux"}
    one, four, whole, call = answered(
        tmp_path,
        {**row, "batch": "1", "note": "it/s = steps x batch"},
        {**row, "batch": "4", "note": "it/s = steps x batch"},
        {**row, "batch": "4"},
        {**row, "batch": "4", "note": "it/s = steps x batch / wall time of the whole call"},
    ).residuals
    assert four.shown()["predicted"] == pytest.approx(4 * whole.shown()["predicted"])
    assert one.predicted_s < four.predicted_s < 4.1 * one.predicted_s
    assert 1.03 * four.predicted_s < call.predicted_s < 1.5 * four.predicted_s  # the decoder and the program around it


def test_memory_is_told_in_gib(tmp_path: Path) -> None:
    row = {**TRAINING, "value": "8", "unit": "GiB"}
    device, allocated = answered(tmp_path, row, {**row, "note": "allocated peak"}).residuals
    assert device.shown()["measured"] == pytest.approx(8.0)
    assert 2 < allocated.shown()["predicted"] < device.shown()["predicted"] < 24


def test_the_best_square_product_is_below_the_peak(tmp_path: Path) -> None:
    row = {
        **TRAINING,
        "model": "square matmul 1024..10240, best",
        "mode": "infer",
        "batch": "",
        "size": "",
        "unit": "TFLOP_per_s",
    }
    (found,) = answered(tmp_path, {**row, "precision": "bf16", "value": "70", "stack": "torch.matmul eager"}).residuals
    assert 50 < found.shown()["predicted"] < 80
    assert found.shown()["measured"] == pytest.approx(70)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"gpu": "RTX 9999"}, "unknown GPU RTX 9999"),
        ({"model": "SwinMLP-B"}, "unknown model SwinMLP-B"),
        ({"model": "SSD300", "size": "32"}, "the zoo has ssd300 at 300 pixels, not at 32"),
        ({"size": "32", "note": "epoch of training set with loading"}, "small images loaded during the step"),
        ({"precision": "vendor choice"}, "unknown precision: vendor choice"),
        ({"gpu": "GTX 1080", "precision": "bf16"}, "the GTX 1080 does not support bf16"),
        ({"quantisation": "Q4_K_M"}, "weights in Q4_K_M are not predicted"),
        ({"stack": "vLLM 0.6.3, torch 2.4"}, "vLLM is not predicted by gpuwise"),
        ({"stack": "LoRA; torch 2.5"}, "adapters are added to linear layers"),
        ({"stack": "torch 2.5, gradient accumulation 8"}, "adapters, accumulated gradients"),
        ({"mode": "dream"}, "unknown mode: dream"),
        ({"batch": "max"}, "a batch that is not a number"),
        ({"batch": ""}, "no batch"),
        ({"value": "-3"}, "a value that is not positive"),
        ({"value": "nan"}, "a value that is not positive"),
        ({"unit": "furlongs"}, "unknown unit: furlongs"),
        ({"note": "DO NOT USE: scale unconfirmed"}, "the note in the row questions its value"),
        ({"gpu_count": "0"}, "a number of GPUs that is not positive"),
        ({"model": "square matmul, best", "unit": "TFLOP_per_s", "precision": "odd"}, "unknown precision: odd"),
    ],
)
def test_an_odd_row_is_left_out_with_its_reason(tmp_path: Path, change: dict[str, str], reason: str) -> None:
    answer = answered(tmp_path, TRAINING, {**TRAINING, **change}, TRAINING)
    ((row, said),) = answer.skipped_rows
    assert row == 1
    assert said.startswith(reason)
    assert [entry.row for entry in answer.residuals] == [0, 2]


def test_json_lists_every_row_once(tmp_path: Path) -> None:
    path = written(tmp_path, TRAINING, {**TRAINING, "gpu": "RTX 9999"}, DECODING, {**DECODING, "size": ""})
    done = CliRunner().invoke(app, ["validate", "--held-out", str(path), "--json"])
    found = json.loads(done.stdout)
    assert found["table"] == "today"
    assert [row["row"] for row in found["residuals"]] == [0, 2]
    assert [(row["row"], row["reason"]) for row in found["skipped"]] == [(1, "unknown GPU RTX 9999"), (3, "no sequence length")]
