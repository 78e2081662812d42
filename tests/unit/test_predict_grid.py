"""Several batches and precisions in one question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gpuwise
from asking import predict_query
from gpuwise.core.errors import BadValue
from gpuwise.questions.common.predictions import predict as predict_step
from gpuwise.questions.predict.grid import GridAnswer
from gpuwise.surfaces.cli.app import app

CARDS = ["RTX 2080 Ti", "GTX 1070"]


def grid(**more: Any) -> GridAnswer:
    return gpuwise.predict(model="lenet5", gpu=CARDS, **more)


def test_each_cell_is_what_predict_says_of_it() -> None:
    answer = grid(batch="8..64", precision="fp32,amp")
    assert [(one.precision, one.batch) for one in answer.results[::2]] == [
        (precision, batch) for precision in ("fp32", "amp") for batch in (8, 16, 32, 64)
    ]
    for one in answer.results[::5]:
        query = predict_query(model="lenet5", gpu=[one.gpu.name], batch=str(one.batch), precision=one.precision)
        assert predict_step(query).results[0].step_s == pytest.approx(one.step_s)


def test_turns_name_the_fastest_and_a_precision_that_does_not_pay() -> None:
    answer = grid(batch="1,1024", precision="fp32,amp")
    steps = {(one.gpu.name, one.precision, one.batch): one.step_s for one in answer.results}
    assert steps["RTX 2080 Ti", "fp32", 1] == pytest.approx(steps["GTX 1070", "fp32", 1], rel=0.05)
    assert answer.turns[0].startswith("fp32: at batch 1, the fastest GPUs are equally fast")
    assert "at batch 1024" in answer.turns[0] or "from batch 1024 on" in answer.turns[0]
    assert steps["RTX 2080 Ti", "amp", 1] > 1.05 * steps["RTX 2080 Ti", "fp32", 1]
    assert any(turn.startswith("amp is slower than fp32 on the RTX 2080 Ti at batch 1") for turn in answer.turns)


def test_a_gpu_without_a_precision_is_left_out_of_its_rows_only() -> None:
    answer = gpuwise.predict(model="lenet5", gpu=["RTX 3090", "GTX 1070"], batch="8,16", precision="fp32,tf32")
    assert [one.gpu.name for one in answer.results if one.precision == "tf32"] == ["RTX 3090", "RTX 3090"]
    assert len([one for one in answer.results if one.precision == "fp32"]) == 4


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"batch": "8..2"}, "invalid batch size or range"),
        ({"batch": "8,x"}, "invalid batch size 'x'"),
        ({"batch": "auto,8"}, "invalid batch size or range"),
        ({"batch": "8,16", "precision": "fp32,fp32"}, "repeated entry"),
        ({"batch": "8,16", "precision": "fp8"}, "does not support fp8"),
        ({"batch": "8,16", "measured": ["GTX 1070=5ms"]}, "applies to one batch size and one precision"),
        ({"batch": ",".join(str(size) for size in range(1, 50))}, "too many"),
    ],
)
def test_odd_lists_are_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(BadValue, match=said):
        grid(**more)


def test_text_json_and_figure_hold_the_same_steps(tmp_path: Path) -> None:
    arguments = [
        "predict",
        "lenet5",
        "--gpu",
        "RTX 2080 Ti",
        "--gpu",
        "GTX 1070",
        "--batch",
        "8,128",
        "--precision",
        "fp32,amp",
    ]
    text = CliRunner().invoke(app, [*arguments, "--figure", str(tmp_path / "grid.svg")])
    answer = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert text.exit_code == 0
    assert len(answer["results"]) == 8
    assert all(turn in " ".join(text.stdout.split()) for turn in answer["turns"])
    picture = (tmp_path / "grid.svg").read_text(encoding="utf-8")
    for one in answer["results"]:
        assert f"{one['gpu']}, {one['precision']}, batch {one['batch']}: " in picture


def test_a_laptop_gpu_may_be_held_below_the_watts_its_makers_choose() -> None:
    asked: dict[str, Any] = {"model": "resnet50", "gpu": ["RTX 2070 Max-Q"], "batch": "32,64", "precision": "fp32"}
    full, quiet = (gpuwise.predict(**asked, power_limit=limit).results for limit in ("", "40W"))
    assert all(slow.step_s > 1.3 * fast.step_s for slow, fast in zip(quiet, full, strict=True))
    with pytest.raises(BadValue, match="10 W is below"):
        gpuwise.predict(**asked, power_limit="10W")
    with pytest.raises(BadValue, match="50 W is below"):
        gpuwise.predict(**{**asked, "gpu": ["RTX 3090"]}, power_limit="50W")
