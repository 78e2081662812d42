"""Answers in a notebook: whole, escaped, in its colours; charts that say the same in both drawings."""

from __future__ import annotations

import html
import importlib.util
import pkgutil
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import gpuwise
from asking import predict_query
from gpuwise import questions
from gpuwise.core.errors import BadValue, MissingExtra
from gpuwise.questions.common.diagnosis import WhyAnswer
from gpuwise.questions.common.options import Shown
from gpuwise.questions.predict.batches import sweep
from gpuwise.render.chart import Bars, Figure, Plot
from gpuwise.render.svg import draw
from gpuwise.surfaces.notebook import figure_of
from making_traces import Run, training

ROOT = Path(__file__).parents[3]
EVIL = "<script>alert(1)</script>"


def _why(folder: Path) -> WhyAnswer:
    trace = training(Run(), name=f"sgemm{EVIL}", load_us=9000.0, workers=False, kernel_us=200.0)
    return gpuwise.why([str(trace.write(folder / "evil<b>.json.gz"))])


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found = [
        gpuwise.predict(model="resnet18", gpu=["RTX 3090"]),
        gpuwise.which(model=["resnet18"], budget=900),
        gpuwise.compare(["RTX 3090", "RTX 4090", "T4"], model=["resnet18"]),
        gpuwise.fit(model="resnet18", gpu=["RTX 3090"], batch="4096"),
        gpuwise.cost(gpu="RTX 4090"),
        gpuwise.build(gpu=["2x RTX 3090"]),
        gpuwise.gpus("RTX 3090"),
        gpuwise.plan("resnet18", cluster="2x RTX 3090"),
        gpuwise.matters("pcie-lanes"),
        gpuwise.predict(model="resnet18", gpu=["RTX 3090", "T4"], batch="8,32", precision="fp32,amp"),
        gpuwise.charts(gpu=["RTX 3090", "RTX 4090"], work="cnn"),
        gpuwise.tune(["batch", "resnet18"], gpu="RTX 3090"),
        gpuwise.tune(["power", "resnet18"], gpu="RTX 3090"),
        sweep(predict_query(model="resnet18", gpu=["RTX 3090"]), [1, 8, 64]),
        _why(tmp_path_factory.mktemp("traces")),
    ]
    return {type(answer).__name__: answer for answer in found}


class _Tags(HTMLParser):
    """Whether every tag that is opened is closed in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_answer_shows_itself_whole_and_needs_nothing_else(answers: dict[str, Any]) -> None:
    for name, answer in answers.items():
        shown = answer._repr_html_()
        tags = _Tags()
        tags.feed(shown)
        assert tags.open == [], name
        assert "\x1b" not in shown, name
        assert not tags.seen & {"script", "link", "img", "iframe"}, name
        assert not re.search(r"url\(|src=|href=|@import", shown), name
        assert ("svg" in tags.seen) == bool(answer.FIGURE), name


def test_an_answer_prints_what_the_command_line_does(answers: dict[str, Any]) -> None:
    from gpuwise.questions.predict.text import render

    assert str(answers["PredictAnswer"]) == render(answers["PredictAnswer"])
    assert not [name for name, answer in answers.items() if "\x1b" in str(answer)]


def test_every_answer_that_has_a_text_can_be_looked_at() -> None:
    for module in pkgutil.walk_packages(questions.__path__, "gpuwise.questions."):
        import_module(module.name)
    shown = Shown.__subclasses__()
    assert len(shown) > 20
    for where in (where for one in shown for where in (one.TEXT, one.FIGURE) if where):
        module, _, function = where.rpartition(".")
        assert callable(getattr(import_module(f"gpuwise.{module}"), function)), where


def test_nothing_that_answers_is_left_without_a_look() -> None:
    modules = [import_module(module.name) for module in pkgutil.walk_packages(questions.__path__, "gpuwise.questions.")]
    answers = {
        one for module in modules for name, one in vars(module).items() if name.endswith("Answer") and isinstance(one, type)
    }
    assert len(answers) > 15
    assert {one.__name__ for one in answers if not issubclass(one, Shown)} == set()
    charted = {one.__name__ for one in answers if one.FIGURE}
    assert {"GridAnswer", "TuneAnswer", "SweepAnswer", "ChartsAnswer"} <= charted


def test_a_sweep_has_a_point_for_each_batch(answers: dict[str, Any]) -> None:
    (panel,) = figure_of(answers["SweepAnswer"]).panels
    assert isinstance(panel, Plot)
    points = [(int(mark.x), mark.y) for mark in panel.series[0].marks]
    assert points == [(point.batch, point.samples_per_s) for point in answers["SweepAnswer"].points]
    assert all(f"{size} " in str(answers["SweepAnswer"]) for size, _ in points)


def test_markup_from_a_trace_stays_text(answers: dict[str, Any]) -> None:
    why = answers["WhyAnswer"]
    assert "evil&lt;b&gt;" in why._repr_html_()
    assert "<b>.json" not in why._repr_html_()


def test_a_drawing_takes_the_ink_of_the_notebook(answers: dict[str, Any]) -> None:
    shown = answers["PredictAnswer"]._repr_html_()
    rules = dict(re.findall(r'svg \[fill="(#\w+)"\]\{fill:(\w+)', shown))
    texts = set(re.findall(r'<text [^>]*fill="(#\w+)"', shown))
    assert texts
    assert {rules.get(colour) for colour in texts} == {"currentColor"}
    assert 'rect[fill="#FFFFFF"]{fill:none}' in shown


def test_an_answer_without_a_chart_says_which_have_one(answers: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match="no chart is available for MattersAnswer"):
        answers["MattersAnswer"].figure()


def _tips(figure: Figure) -> set[str]:
    pieces = [bar.segments for panel in figure.panels if isinstance(panel, Bars) for bar in panel.bars]
    marks = [series.marks for panel in figure.panels if isinstance(panel, Plot) for series in panel.series]
    return {one.tip for group in (*pieces, *marks) for one in group if one.tip}


def test_plotly_draws_what_our_own_drawing_shows(answers: dict[str, Any]) -> None:
    pytest.importorskip("plotly")
    for name in (name for name, answer in answers.items() if answer.FIGURE):
        description = figure_of(answers[name])
        chart = answers[name].figure()
        told = {tip for trace in chart.data for tip in (getattr(trace, "hovertext", None) or ()) if tip}
        assert told == {html.escape(tip, quote=False) for tip in _tips(description)}, name
        assert all(f"<title>{html.escape(tip)}</title>" in draw(description) for tip in _tips(description)), name
        lengths = [
            sum(len(trace.x) for trace in chart.data if trace.type == "bar"),
            sum(len(bar.segments) for panel in description.panels if isinstance(panel, Bars) for bar in panel.bars),
        ]
        assert lengths[0] == lengths[1], name
        assert chart.layout.annotations[-1].text == html.escape(description.footer, quote=False)


def test_a_figure_has_the_numbers_of_the_answer(answers: dict[str, Any]) -> None:
    pytest.importorskip("plotly")
    answer = gpuwise.predict(model="resnet18", gpu=["RTX 3090", "RTX 4090", "T4"])
    bars, ranges = answer.figure().data[0], answer.figure().data[1]
    assert list(bars.x) == [result.step_s for result in answer.results]
    assert list(ranges.x) == [result.step_low_s for result in answer.results]
    compared = answers["CompareAnswer"]
    assert sorted(compared.figure().data[0].x) == sorted(pair.ratio for pair in compared.pairs)
    assert answers["WhichAnswer"].figure(chart="speed").data[0].type == "bar"


def test_names_in_a_figure_are_data_and_no_markup(answers: dict[str, Any]) -> None:
    pytest.importorskip("plotly")
    assert "evil&lt;b&gt;" in answers["WhyAnswer"].figure().layout.annotations[-1].text


def test_a_missing_plotly_says_how_to_get_it(answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwise.render.plotly.find_spec", lambda name: None)
    with pytest.raises(MissingExtra) as told:
        answers["PredictAnswer"].figure()
    assert told.value.hint == 'run `pip install "gpuwise[notebook]"`'


def test_plotly_is_loaded_for_figures_only() -> None:
    code = "import sys\nimport gpuwise\ngpuwise.gpus('RTX 3090')._repr_html_()\nprint('plotly' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"


@pytest.mark.slow
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("nbclient", "ipykernel", "plotly")), reason="needs gpuwise[dev]"
)
@pytest.mark.filterwarnings("ignore")  # of the kernel's own packages
def test_the_guide_runs_in_a_real_notebook() -> None:
    import nbclient
    import nbformat

    cells = re.findall(r"```python\n(.*?)```", (ROOT / "docs/guides/notebook.md").read_text("utf-8"), re.DOTALL)
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    first, second, third, last = (cell.outputs[-1].data for cell in book.cells)
    assert "<svg" in first["text/html"]
    assert first["text/plain"].startswith("resnet50")
    assert re.search(r"'RTX 3090': \d+", second["text/plain"])
    for shown in (third, last):
        assert shown["application/vnd.plotly.v1+json"]["data"]
