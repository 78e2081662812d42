"""`gpuwise which` as text and as charts."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuwise import api
from gpuwise.cli.app import app
from gpuwise.report.figures.choices import CHARTS, choices_figure
from gpuwise.report.figures.svg import draw
from gpuwise.report.which import render


@pytest.fixture(scope="module")
def answer() -> api.WhichAnswer:
    return api.which(api.which_query(budget=2500.0, task="nlp", have=["GTX 1080 Ti"], today=date(2026, 11, 16)))


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_line_is_longer_than_the_terminal(answer: api.WhichAnswer, width: int) -> None:
    lines = render(answer, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.startswith("> ") for line in lines)


@pytest.mark.parametrize("chart", CHARTS)
def test_every_chart_is_drawn_and_carries_its_date(answer: api.WhichAnswer, chart: str) -> None:
    text = draw(choices_figure(answer, chart))
    assert text.startswith("<svg")
    assert answer.data_date.isoformat() in text
    assert "RTX 5090" in text
    assert "inf" not in text.replace("inference", "")


def test_a_chart_is_written_beside_the_answer(tmp_path: Path) -> None:
    arguments = ["--budget", "800", "--figure", str(tmp_path / "out.svg"), "--chart", "value", "--currency", "EUR=1.08"]
    assert CliRunner().invoke(app, ["which", *arguments], catch_exceptions=False).exit_code == 0
    text = (tmp_path / "out.svg").read_text(encoding="utf-8")
    assert "EUR a run" in text
    assert "$" not in text
