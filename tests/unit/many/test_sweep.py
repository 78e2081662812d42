"""A sweep says at every point what `predict` says there, leaves no point out, and tells what is wrong before it begins."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import gpuwise
from asking import predict_query
from gpuwise.core.errors import BadFile, BadValue, GpuwiseError, UnknownName
from gpuwise.questions.sweep.answer import COLUMNS, SweptAnswer
from gpuwise.questions.sweep.ask import ask, gpus_meant, parse_batches
from gpuwise.questions.sweep.options import SweepOptions
from gpuwise.questions.sweep.text import render
from gpuwise.surfaces.cli.app import app
from gpuwise.workload.store import files

# Odd ones on purpose: a slow segment, a laptop, a CPU, an unknown generation, no tensor cores, typed specs.
GPUS = (
    "GTX 970",
    "GTX 960M",
    "RTX 3090",
    "B200",
    "Core i9-9900K",
    "M1 Max",
    "name=Foo,arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s,tdp=200W",
)
NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)
    def forward(self, x):
        return self.layer(x)
    def example_inputs(self, batch):
        return (torch.zeros(batch, 8),)
"""


def listed(folder: Path, *models: str) -> Path:
    path = folder / "models.txt"
    path.write_text("\n".join(models) + "\n", encoding="utf-8")
    return path


def swept(folder: Path, models: tuple[str, ...], name: str = "rows.jsonl", **asked: Any) -> tuple[SweptAnswer, list[Any]]:
    asked = {"gpus": ["RTX 3090"], "batches": "1,8", "precisions": "fp32"} | asked
    answer = gpuwise.sweep(listed(folder, *models), **asked, out=folder / name, on="here")
    return answer, [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("model", "precision", "batches"), [("resnet50", "fp32", "1,24,700"), ("bert-base", "amp", "2,64")])
def test_every_point_is_what_predict_says(model: str, precision: str, batches: str, tmp_path: Path) -> None:
    answer, rows = swept(tmp_path, (model,), gpus=list(GPUS), batches=batches, precisions=precision)
    sizes = [int(size) for size in batches.split(",")]
    assert [(row["gpu"], row["batch"]) for row in rows] == [(gpu.name, size) for gpu in gpus_meant(GPUS) for size in sizes]
    assert answer.points == len(rows)
    compared = 0
    for row, (typed, size) in zip(rows, product(GPUS, sizes), strict=True):
        if row["reason"]:
            with pytest.raises(BadValue, match=f"does not support {precision}"):
                gpuwise.predict(model=model, gpu=[typed], batch=str(size), precision=precision)
            continue
        (one,) = gpuwise.predict(model=model, gpu=[typed], batch=str(size), precision=precision).results
        for name in ("step_s", "step_low_s", "step_high_s", "samples_per_s", "coverage_fraction"):
            assert row[name] == pytest.approx(getattr(one, name), rel=1e-9), (name, row)
        assert row["memory_bytes"] == pytest.approx(one.memory.total_bytes)
        assert (row["bound"], row["fits"], row["seq"], row["mode"]) == (one.bound, one.fits, one.seq, one.mode)
        compared += 1
    assert compared == answer.predicted >= 8


def test_pricing_in_small_pieces_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"gpus": list(GPUS), "batches": "1..64", "precisions": "fp32"}
    _, whole = swept(tmp_path, ("resnet18",), **asked)
    monkeypatch.setattr("gpuwise.questions.sweep.block._AT_ONCE", 300)
    _, pieces = swept(tmp_path, ("resnet18",), name="pieces.jsonl", **asked)
    for left, right in zip(whole, pieces, strict=True):
        assert left["step_s"] == pytest.approx(right["step_s"], rel=1e-12)
        assert [left[name] for name in ("gpu", "batch", "bound", "memory_bytes", "reason")] == [
            right[name] for name in ("gpu", "batch", "bound", "memory_bytes", "reason")
        ]


def test_points_that_cannot_be_predicted_are_rows_with_a_reason(tmp_path: Path) -> None:
    models = ("resnet50", "llama-2-7b")
    answer, rows = swept(tmp_path, models, gpus=["GTX 960M", "RTX 4090"], precisions="fp32,bf16", seq=100_000, batches="1")
    assert len(rows) == 2 * 2 * 2 == answer.points
    told = {(row["model"], row["gpu"], row["precision"]): row["reason"] for row in rows}
    assert "has no sequence dimension" in told["resnet50", "RTX 4090", "fp32"]
    assert "supports at most 4,096 tokens" in told["llama-2-7b", "RTX 4090", "bf16"]
    assert all(row["step_s"] is row["memory_bytes"] is row["fits"] is None for row in rows)
    assert answer.predicted == 0
    assert sum(one.count for one in answer.refused) == 8
    _, rows = swept(tmp_path, ("resnet50",), name="b.jsonl", gpus=["GTX 960M", "RTX 4090"], precisions="bf16", batches="1")
    assert [row["reason"] for row in rows] == ["the GPU does not support bf16", None]


def test_a_file_has_its_own_precision_and_may_be_known_at_one_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    gpuwise.capture(model="resnet18", precision="amp", output=Path("own.json.gz"))
    _, rows = swept(tmp_path, ("own.json.gz",), precisions="")
    assert {(row["model"], row["precision"], row["reason"]) for row in rows} == {("own.json.gz", "amp", None)}
    _, rows = swept(tmp_path, ("own.json.gz",), name="two.jsonl", precisions="fp32,amp")
    assert [row["reason"] is None for row in rows] == [False, False, True, True]
    assert "uses precision amp" in rows[0]["reason"]


def test_a_workload_of_one_size_is_predicted_there_alone(tmp_path: Path) -> None:
    workload = gpuwise.capture(model="resnet18", batch=8).workload
    files.write(replace(workload, symbols=()), tmp_path / "fixed.json.gz")
    _, rows = swept(tmp_path, (f"{tmp_path}/fixed.json.gz",), precisions="")
    assert [row["reason"] for row in rows] == ["the model was captured only at batch 8", None]
    (one,) = gpuwise.predict(model=f"{tmp_path}/fixed.json.gz", gpu=["RTX 3090"]).results
    assert (rows[1]["step_s"], rows[1]["memory_bytes"]) == pytest.approx((one.step_s, one.memory.total_bytes))


@pytest.mark.slow
def test_code_of_the_user_is_swept_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    (tmp_path / "net.py").write_text(NET, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    asked: dict[str, Any] = {"gpus": "RTX 3090", "batches": "1,8", "precisions": "fp32", "out": tmp_path / "rows.csv"}
    query = ask(SweepOptions(listed(tmp_path, "net.py:Net"), **asked))
    assert query.tasks()[0].step.model == f"{tmp_path.resolve()}/net.py:Net"
    answer = gpuwise.sweep(tmp_path / "models.txt", **asked, on="processes:1")
    assert (answer.points, answer.predicted) == (2, 2)
    before = query.identity()
    (tmp_path / "net.py").write_text(NET.replace("8, 4", "8, 5"), encoding="utf-8")
    assert query.identity()["files"] != before["files"]


def test_the_three_forms_hold_the_same_rows(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"gpus": ["GTX 960M", "RTX 4090"], "precisions": "fp32,bf16"}
    _, rows = swept(tmp_path, ("resnet18", "bert-base"), **asked)
    for name in ("rows.csv", "rows.parquet"):
        gpuwise.sweep(tmp_path / "models.txt", batches="1,8", **asked, out=tmp_path / name, on="here")
    table = pyarrow.parquet.read_table(tmp_path / "rows.parquet")
    assert table.to_pylist() == rows
    assert table.column_names == list(COLUMNS)
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as lines:
        plain = list(csv.DictReader(lines))
    assert plain == [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows]


def test_every_bad_line_is_told_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "cut.json.gz").write_bytes(b"\x1f\x8bcut")
    path = listed(tmp_path, "resnet50", "", "# resnet51", "resnet5o", "no.py:Net", "timm:", "resnet50", f"{tmp_path}/cut.json.gz")
    result = CliRunner().invoke(app, ["sweep", str(path), "--gpus", "all", "--batches", "1", "--out", str(tmp_path / "r.csv")])
    assert isinstance(result.exception, BadFile)
    for words in (
        "line 4: resnet5o",
        "did you mean",
        "line 5: no.py:Net",
        "line 6: timm:",
        "line 7: resnet50: repeats line 1",
    ):
        assert words in str(result.exception)
    assert "line 8" in str(result.exception)
    assert "line 3" not in str(result.exception)
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith("r.csv")] == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gpus": ["RTX 3O9O0"]}, "RTX 3O9O0"),
        ({"gpus": []}, "no GPU"),
        ({"batches": "1..x"}, "invalid batch size or range '1..x'"),
        ({"batches": "8..4"}, "are out of range"),
        ({"batches": "1..100000:1"}, "are out of range"),
        ({"batches": ""}, "invalid batch size or range ''"),
        ({"precisions": "fp31"}, "unknown precision 'fp31'"),
        ({"stack": "torch-x"}, "unknown software stack"),
        ({"mode": "sleep"}, "mode"),
    ],
)
def test_what_cannot_be_asked_is_refused(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(GpuwiseError, match=words):
        swept(tmp_path, ("resnet18",), **change)


def test_all_wrong_names_of_gpus_are_told_together() -> None:
    with pytest.raises(BadValue, match=r"'foo'.*'bar'"):
        gpus_meant(("foo", "RTX 3090", "bar"))
    with pytest.raises(UnknownName):
        gpus_meant(("foo",))


def test_batches_double_and_say_so() -> None:
    sizes, notes = parse_batches("1..1024")
    assert sizes == tuple(2**power for power in range(11))
    assert notes[0].name == "batches"
    assert parse_batches("8,1")[0] == (1, 8)
    assert parse_batches("4..6:1") == ((4, 5, 6), [])


def test_another_question_under_the_same_name_is_refused(tmp_path: Path) -> None:
    swept(tmp_path, ("resnet18",))
    with pytest.raises(BadValue, match=r"batches 1, 8, not 1, 9") as refusal:
        swept(tmp_path, ("resnet18",), batches="1,9")
    assert "--fresh" in refusal.value.hint
    asked: dict[str, Any] = {"gpus": "RTX 3090", "batches": "1,9", "precisions": "fp32", "out": tmp_path / "rows.jsonl"}
    assert gpuwise.sweep(tmp_path / "models.txt", **asked, on="here", fresh=True).kept_parts == 0


def test_a_question_for_which_nothing_was_done_is_forgotten(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"gpus": "RTX 3090", "batches": "1,9", "precisions": "fp32", "out": tmp_path / "rows.jsonl"}
    with pytest.raises(BadValue, match="unknown executor 'mars'"):
        gpuwise.sweep(listed(tmp_path, "resnet18"), **asked, on="mars")
    answer, _ = swept(tmp_path, ("resnet18",))
    assert (answer.kept_parts, answer.batches) == (0, (1, 8))


def test_a_file_of_the_user_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("mine", encoding="utf-8")
    with pytest.raises(BadFile, match="already exists and was not written by this command"):
        swept(tmp_path, ("resnet18",))
    assert (tmp_path / "rows.jsonl").read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "rows.jsonl.parts").exists()


def test_a_finished_sweep_is_not_done_again(tmp_path: Path) -> None:
    first, rows = swept(tmp_path, ("resnet18",))
    changed = (tmp_path / "rows.jsonl").stat().st_mtime_ns
    again, _ = swept(tmp_path, ("resnet18",))
    assert (again.kept_parts, again.points, again.refused) == (1, first.points, first.refused)
    assert (first.already_whole, again.already_whole) == (False, True)
    assert render(again).startswith("nothing to do: the table is already complete")
    assert "nothing to do" not in render(first)
    assert (tmp_path / "rows.jsonl").stat().st_mtime_ns == changed
    (tmp_path / "rows.jsonl").unlink()
    assert swept(tmp_path, ("resnet18",))[1] == rows


def test_a_name_that_fits_several_gpus_says_which_was_taken(tmp_path: Path) -> None:
    models, gpus = listed(tmp_path, "resnet18"), ["curated", "h100", "RTX 3090"]
    query = ask(SweepOptions(models, gpus=gpus, batches="1", out=tmp_path / "rows.csv"))
    taken = [note for note in query.assumptions if note.name.startswith("gpu ")]
    assert [(note.name, note.value) for note in taken] == [("gpu 'h100'", "H100 SXM 80GB")]
    assert taken == list(predict_query(model="resnet18", gpu=["h100"]).assumptions[:1])


def test_only_tables_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match="does not have a supported file extension"):
        swept(tmp_path, ("resnet18",), name="rows.xlsx")


def test_json_is_one_object(tmp_path: Path) -> None:
    path = listed(tmp_path, "resnet18")
    arguments = ["sweep", str(path), "--gpus", "RTX 3090", "--batches", "1..4", "--out", str(tmp_path / "r.csv"), "--json"]
    result = CliRunner().invoke(app, [*arguments, "--on", "here"])
    found = json.loads(result.stdout)
    assert (found["points"], found["predicted"], found["batches"]) == (6, 6, [1, 2, 4])
    assert {"batches", "precisions", "stack", "cpu"} <= {note["name"] for note in found["assumptions"]}
    assert found["data_date"]
