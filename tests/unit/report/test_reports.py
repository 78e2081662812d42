"""Reports: one file with the words and the figures of the answer, whole or not at all."""

from __future__ import annotations

import re
import sys
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuwise.core.errors import GpuwiseError
from gpuwise.render.document import as_html, as_markdown
from gpuwise.surfaces.cli.app import app

TODAY = date(2026, 1, 2)


def _run(*arguments: str) -> str:
    sys.argv = ["gpuwise", *arguments]
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.stdout


@pytest.fixture(autouse=True)
def _arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["gpuwise"])


def test_a_report_holds_the_answer_and_its_figure_and_needs_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    said = _run("predict", "resnet18", "--gpu", "RTX 3090", "--report", str(path))
    report = path.read_text("utf-8")
    assert said.splitlines()[0] in report
    assert report.count("<svg") == 1
    assert "<script" not in report
    assert "src=" not in report
    assert f"report: {path}" in said


@pytest.mark.parametrize("command", [name.name or name.callback.__name__ for name in app.registered_commands])  # type: ignore[union-attr]
def test_every_command_that_answers_takes_one(command: str) -> None:
    assert ("--report" in _run(command, "--help")) == (command != "serve")


def test_a_report_in_markdown_has_its_figure_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "my out.md"
    said = _run("predict", "resnet18", "--gpu", "RTX 3090", "--report", str(path))
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "my out.svg"]
    assert "![resnet18 on RTX 3090](my%20out.svg)" in path.read_text("utf-8")
    assert (tmp_path / "my out.svg").read_text("utf-8").startswith("<svg")
    assert f"report: {path}, {tmp_path / 'my out.svg'}" in said


@pytest.mark.parametrize(
    "question", [["compare", "RTX 3090", "RTX 4090", "--model", "resnet18"], ["plan", "resnet18", "--cluster", "2x RTX 3090"]]
)
def test_answers_without_an_option_for_figures_are_drawn_too(question: list[str], tmp_path: Path) -> None:
    _run(*question, "--report", str(tmp_path / "out.html"))
    assert (tmp_path / "out.html").read_text("utf-8").count("<svg") == 1


def test_an_answer_of_no_is_reported_too(tmp_path: Path) -> None:
    path = tmp_path / "out.md"
    _run("build", "--gpu", "4x RTX 3090", "--psu", "600", "--strict", "--report", str(path))
    assert "FAIL" in path.read_text("utf-8")


def test_another_ending_is_refused_before_the_work(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["predict", "resnet18", "--gpu", "RTX 3090", "--report", str(tmp_path / "out.txt")])
    assert isinstance(result.exception, GpuwiseError)
    assert list(tmp_path.iterdir()) == []


def test_markup_in_an_answer_stays_text() -> None:
    text = "\x1b[1m<script>alert(1)</script>\x1b[0m ```"
    page = as_html("gpuwise why '<b>'", [text], [], TODAY)
    assert "<script" not in page
    assert "<b>" not in page
    assert "\x1b" not in page
    assert as_markdown("gpuwise why", [text], [], TODAY).count("````") == 2
    evil = as_markdown("gpuwise why", [], [("a](x) <script> `b`", "out.svg")], TODAY)
    assert r"![a\](x) \<script\> \`b\`](out.svg)" in evil


def test_on_a_phone_tables_scroll_sentences_wrap_and_a_long_path_does_not_widen_the_page() -> None:
    table = "GPU       step\nRTX 3090  12 ms"
    page = as_html(f"gpuwise why {'/a-long-folder' * 20}/trace.json", [f"A sentence.\n\n{table}\n\nrests on:\n  one"], [], TODAY)
    assert f'<pre class="columns">{table}</pre>' in page
    assert '<pre class="words">A sentence.</pre>' in page
    assert '<pre class="words">rests on:\n  one</pre>' in page
    assert "pre.columns{white-space:pre;overflow-x:auto}" in page
    assert re.search(r"h1\{[^}]*overflow-wrap:anywhere", page)
    assert re.search(r"svg\{[^}]*min-width", page)
    assert "initial-scale=1" in page
