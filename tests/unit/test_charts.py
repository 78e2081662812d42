"""The charts of all GPUs: speeds match predictions, and prices are labelled correctly."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.hardware.catalog import load_catalog
from gpuwise.questions.charts.answer import ChartRow, ChartsAnswer, chart_gpus
from gpuwise.questions.charts.ask import WORK, ask
from gpuwise.questions.charts.options import ChartsOptions
from gpuwise.surfaces.cli.app import app

TODAY = date(2026, 11, 16)


def asked(**more: object) -> ChartsAnswer:
    return chart_gpus(ask(ChartsOptions(**more), today=TODAY))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def everything() -> ChartsAnswer:
    return asked()


def row(answer: ChartsAnswer, name: str) -> ChartRow:
    return next(row for row in answer.rows if row.gpu.name == name)


def test_all_curated_gpus_that_run_anything_are_there(everything: ChartsAnswer) -> None:
    curated = {gpu.name for gpu in load_catalog().curated}
    charted = {row.gpu.name for row in everything.rows}
    assert charted <= curated
    assert len(charted) > 0.97 * len(curated)
    missing = [gpu for gpu in load_catalog().curated if gpu.name not in charted]
    assert all(gpu.memory_bytes <= 2 * 2**30 for gpu in missing), [gpu.name for gpu in missing]


def test_the_baseline_is_one_everywhere(everything: ChartsAnswer) -> None:
    base = row(everything, "RTX 3090")
    assert [everything.speed(base, work.name) for work in WORK] == [1.0] * len(WORK)
    assert everything.mean(base) == pytest.approx(1.0)
    assert everything.value(base) == pytest.approx(1.0)


def test_speeds_are_ratios_of_what_predict_says(everything: ChartsAnswer) -> None:
    steps = gpuwise.predict(model="resnet50", gpu=["RTX 3090", "RTX 4090"], batch="128", precision="amp").results
    assert everything.speed(row(everything, "RTX 4090"), "cnn", "16 bit") == pytest.approx(
        steps[0].step_s / steps[1].step_s, rel=0.01
    )


def test_rows_stand_in_the_order_of_their_mean(everything: ChartsAnswer) -> None:
    means = [everything.mean(one) or 0.0 for one in everything.rows]
    assert means == sorted(means, reverse=True)


def test_what_does_not_fit_has_no_figure(everything: ChartsAnswer) -> None:
    small = row(everything, "RTX 3080")  # 10 GB
    assert everything.speed(small, "llm", "16 bit") is None
    assert everything.speed(small, "llm", "4 bit") is not None


def test_a_card_without_matrix_cores_has_no_16_bit(everything: ChartsAnswer) -> None:
    old = row(everything, "GTX 1080 Ti")
    assert everything.speed(old, "cnn", "16 bit") is None
    assert everything.speed(old, "cnn", "fp32") is not None


def test_an_old_launch_price_is_no_price_of_today_and_the_users_price_is(everything: ChartsAnswer) -> None:
    assert not row(everything, "GTX 980 Ti").today
    assert row(everything, "GTX 1080 Ti").today  # it has a used price
    mine = asked(gpu=["GTX 980 Ti", "RTX 3090"], price=["GTX 980 Ti=100", "RTX 3090=700"], work="cnn")
    own = row(mine, "GTX 980 Ti")
    assert own.today
    speed = mine.speed(own, "cnn")
    assert speed is not None
    assert mine.value(own) == pytest.approx(speed * 700 / 100)


def test_all_costs_are_price_machine_and_electricity() -> None:
    mine = asked(gpu=["RTX 3090", "RTX 4090"], price=["RTX 3090=700", "RTX 4090=1800"], kwh_price=0.175, work="cnn")
    kwh = (450 + 100) * 0.15 * 8760 * 5 / 1000
    assert row(mine, "RTX 4090").owned_usd == pytest.approx(1800 + 700 + kwh * 0.175)
    one, two = row(mine, "RTX 3090"), row(mine, "RTX 4090")
    speed = mine.speed(two, "cnn")
    assert speed is not None
    assert one.owned_usd is not None
    assert two.owned_usd is not None
    assert mine.value(two, owned=True) == pytest.approx(speed * one.owned_usd / two.owned_usd)
    with pytest.raises(BadValue):
        asked(gpu=["RTX 3090"], utilization=2.0, work="cnn")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"work": "poetry"}, "unknown kind of work"),
        ({"segment": "toaster"}, "unknown segment"),
        ({"year": "1999"}, "no GPU matches these filters"),
        ({"baseline": "GTX 1060 3GB", "gpu": ["RTX 3090"]}, "cannot be the baseline"),
    ],
)
def test_odd_questions_are_refused(more: dict[str, object], said: str) -> None:
    with pytest.raises(GpuwiseError, match=said):
        asked(**more)


@pytest.mark.parametrize("chart", ["speed", "value", "owned"])
def test_text_json_and_figure_agree(chart: str, tmp_path: Path) -> None:
    arguments = ["charts", "--segment", "desktop", "--year", "2022-", "--chart", chart, "-v"]
    done = CliRunner().invoke(app, [*arguments, "--figure", str(tmp_path / "charts.svg")])
    answer = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert done.exit_code == 0
    picture = (tmp_path / "charts.svg").read_text(encoding="utf-8")
    for one in answer["gpus"]:
        assert one["gpu"] in done.stdout
        drawn = f">{one['gpu']}{'' if one['generation_measured'] else ' *'}<" in picture
        assert drawn == (chart == "speed" or one["price_usd"] is not None)


def test_a_generation_that_was_never_measured_is_marked() -> None:
    said = CliRunner().invoke(app, ["charts", "--gpu", "Arc B580", "--gpu", "RTX 3090", "--work", "cnn"]).stdout
    assert "Arc B580 *" in said
    assert "RTX 3090 *" not in said
    assert "* No GPU of this generation was measured" in said
    assert "* No GPU" not in CliRunner().invoke(app, ["charts", "--gpu", "RTX 3090", "--work", "cnn"]).stdout


def test_an_unknown_chart_is_refused_before_the_work() -> None:
    result = CliRunner().invoke(app, ["charts", "--chart", "pie"])
    assert isinstance(result.exception, BadValue)
