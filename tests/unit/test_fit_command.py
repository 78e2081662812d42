"""`gpuwise fit` as a command: its keys, its exit code, its figure, the whole catalogue, and what it refuses."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from fit_cases import SMALL, case, verdict
from typer.testing import CliRunner

import gpuwise
from asking import catalogue_query
from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.hardware.catalog import load_catalog
from gpuwise.questions.fit.answer import FitAnswer
from gpuwise.questions.fit.catalogue import fit_catalogue
from gpuwise.questions.fit.figure import memory_figure
from gpuwise.render.chart import Bars
from gpuwise.surfaces.cli.app import app


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["fit", *arguments])


def test_json_has_the_keys_of_the_contract() -> None:
    done = run("resnet50", "--gpu", "RTX 3090", "--json")
    found = json.loads(done.output)
    assert found.keys() >= {
        "model",
        "gpu",
        "batch",
        "memory",
        "fits",
        "max_batch",
        "remedies",
        "not_applicable",
        "ladder",
        "assumptions",
        "data_date",
    }
    assert "results" not in found
    for remedy in found["remedies"]:
        assert remedy.keys() >= {"name", "max_batch", "memory_bytes", "step_s", "cost"}
    parts = [
        value
        for key, value in found["memory"].items()
        if key.split("_")[0] in "weight gradient optimizer activation workspace framework".split()
    ]
    assert sum(parts) == pytest.approx(found["memory"]["total_bytes"])


def test_several_gpus_are_listed_and_the_first_stands_on_top() -> None:
    found = json.loads(run("lenet5", "--gpu", "RTX 3090", "--gpu", "T4", "--json").output)
    assert [result["gpu"] for result in found["results"]] == ["RTX 3090", "T4"]
    assert found["gpu"] == "RTX 3090"
    assert found["max_batch"] == found["results"][0]["max_batch"]


def test_strict_says_no_by_its_exit_code() -> None:
    small = ("resnet50", "--gpu", SMALL, "--no-remedies")
    assert run(*small, "--batch", "512", "--strict").exit_code == 1
    assert run(*small, "--batch", "512").exit_code == 0
    assert run(*small, "--batch", "8", "--strict").exit_code == 0


def test_the_language_model_that_overflows_is_told_in_one_screen() -> None:
    done = run("gpt2-xl", "--gpu", "RTX 3090", "--batch", "4", "--seq", "1024", "--precision", "amp")
    assert done.exit_code == 0
    lines = done.output.rstrip().splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100
    assert "DOES NOT FIT" in done.output
    assert "until the model fits" in done.output


@pytest.mark.parametrize(
    ("arguments", "error", "part"),
    [
        (["resnet50"], BadValue, "no GPU"),
        (["resnet50", "--gpu", "RTX 9999"], UnknownName, "unknown GPU"),
        (["resnot50", "--gpu", "RTX 3090"], UnknownName, "unknown model"),
        (["resnet50", "--gpu", "RTX 3090", "--batch", "0"], BadValue, "invalid batch size"),
        (["resnet50", "--gpu", "RTX 3090", "--batch", "99999999999"], BadValue, "invalid batch size"),
        (["resnet50", "--gpu", "RTX 3090", "--batch", "many"], BadValue, "invalid batch size 'many'"),
        (["resnet50", "--gpu", "RTX 3090", "--gpus", "0"], BadValue, "invalid --gpus 0"),
        (["resnet50", "--gpu", "RTX 2080 Ti", "--precision", "bf16"], BadValue, "does not support bf16"),
        (["gpt2", "--gpu", "RTX 3090", "--seq", "5000"], BadValue, "supports at most"),
        (["resnet50", "--all", "--gpu", "RTX 3090"], BadValue, "cannot be combined"),
    ],
)
def test_bad_questions_are_refused(arguments: list[str], error: type[Exception], part: str) -> None:
    done = run(*arguments)
    assert isinstance(done.exception, error)
    assert part in str(done.exception)


def test_a_batch_that_cannot_be_counted_is_refused() -> None:
    with pytest.raises(BadValue, match="more than can be addressed"):
        verdict("llama-3-8b", "RTX 3090", batch="2147483647", seq=8192, precision="amp")


def test_a_workload_file_says_what_it_decides_itself(tmp_path: Path) -> None:
    path = tmp_path / "net.json.gz"
    assert CliRunner().invoke(app, ["capture", "lenet5", "--batch", "32", "-o", str(path)]).exit_code == 0
    (found,) = gpuwise.fit(model=str(path), gpu=("RTX 3090",)).results
    assert found.max_batch > 32
    assert "sets its own run options" in dict(found.advice.not_applicable)["amp"]


def test_a_cpu_is_a_device_whose_memory_is_the_system_s() -> None:
    found = verdict("resnet50", "cpu", precision="fp32")
    assert found.room.shared
    (predicted,) = gpuwise.predict(model="resnet50", gpu=("cpu",), precision="fp32").results
    assert found.step_s == pytest.approx(predicted.step_s)


def test_the_figure_shows_what_the_answer_says(tmp_path: Path) -> None:
    figure = memory_figure(FitAnswer(model="gpt2", results=(case("language"),), notes=(), data_date=date(2026, 1, 1)))
    (panel,) = figure.panels
    assert isinstance(panel, Bars)
    held = {bar.label: sum(segment.value for segment in bar.segments) for bar in panel.bars}
    found = case("language")
    assert held["the step"] == pytest.approx(found.memory.total_bytes / 2**30)
    assert held[found.gpu.name] == pytest.approx(found.room.usable_bytes / 2**30)
    assert held[found.advice.ladder[-1].title] == pytest.approx(found.advice.ladder[-1].memory.total_bytes / 2**30)
    path = tmp_path / "memory.svg"
    assert run("lenet5", "--gpu", "RTX 3090", "--gpu", "T4", "--no-remedies", "--figure", str(path)).exit_code == 0
    assert path.read_text(encoding="utf-8").startswith("<svg")


# ---------------------------------------------------------------- the catalogue


def test_the_whole_catalogue_agrees_with_single_answers() -> None:
    whole = fit_catalogue(catalogue_query(model="resnet50", precision="amp"))
    assert len(whole.results) == len(load_catalog().curated)
    rows = {row.gpu.name: row for row in whole.results}
    for name in ("RTX 3090", "H100 SXM 80GB", "GTX 1060 6GB", "M2 Max 38-core", "T4"):
        alone = verdict("resnet50", name, precision="amp")
        assert rows[name].max_batch == alone.max_batch
        assert rows[name].memory == alone.memory
        assert rows[name].fits == alone.fits
        assert rows[name].step_s == pytest.approx(alone.step_s, rel=0.01)


def test_the_catalogue_is_shown_by_memory() -> None:
    done = run("resnet50", "--all")
    assert done.exit_code == 0
    assert "largest batch" in done.output
    assert len(json.loads(run("resnet50", "--all", "--json").output)["results"]) == len(load_catalog().curated)
