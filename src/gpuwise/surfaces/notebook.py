"""Answers where they are looked at without a command line: their text, HTML for Jupyter, Plotly's figure of their chart."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.render.chart import Figure
from gpuwise.render.inks import page_inks
from gpuwise.render.svg import draw

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as Chart

__all__ = ["CHARTS", "TEXTS", "figure_of", "html_of", "plotly_of", "text_of"]

# The answer's class -> the module with its text, and the function there.
TEXTS = {
    "BenchAnswer": "questions.bench.text.render",
    "BuildAnswer": "questions.build.text.render",
    "CaptureAnswer": "questions.capture.text.render",
    "CatalogueFit": "questions.fit.text.render_catalogue",
    "ChartsAnswer": "questions.charts.text.render",
    "Checkup": "questions.doctor.text.render",
    "ClusterAnswer": "questions.watch.cluster_text.render",
    "CompareAnswer": "questions.compare.text.render",
    "CostAnswer": "questions.cost.text.render",
    "FitAnswer": "questions.fit.text.render",
    "FleetAnswer": "questions.why.fleet_text.render",
    "GpuAnswer": "questions.gpus.text.render",
    "GridAnswer": "questions.predict.grid_text.render",
    "MattersAnswer": "questions.matters.text.render",
    "MeasuredAnswer": "questions.tune.measured_text.render_measured",
    "PlanAnswer": "questions.plan.text.render",
    "PowerAnswer": "questions.tune.power_text.render_power",
    "PredictAnswer": "questions.predict.text.render",
    "PricesAnswer": "questions.prices.text.render",
    "SweepAnswer": "questions.predict.batches_text.render_batches",
    "SweptAnswer": "questions.sweep.text.render",
    "TuneAnswer": "questions.tune.text.render",
    "ValidateAnswer": "questions.validate.text.render",
    "WatchAnswer": "questions.watch.text.render",
    "WhichAnswer": "questions.which.text.render",
    "WhyAnswer": "questions.why.text.render",
}
CHARTS = {
    "BuildAnswer": "questions.build.figure.power_figure",
    "ChartsAnswer": "questions.charts.figure.charts_figure",
    "CompareAnswer": "questions.compare.figure.ratios_figure",
    "CostAnswer": "questions.cost.figure.cost_figure",
    "FitAnswer": "questions.fit.figure.memory_figure",
    "GridAnswer": "questions.predict.grid_figure.grid_figure",
    "PlanAnswer": "questions.plan.figure.plans_figure",
    "PredictAnswer": "questions.predict.figure.steps_figure",
    "SweepAnswer": "questions.predict.batches_figure.swept_figure",
    "TuneAnswer": "questions.tune.figure.tuned_figure",
    "ValidateAnswer": "questions.validate.figure.accuracy_figure",
    "WhichAnswer": "questions.which.figure.choices_figure",
    "WhyAnswer": "questions.why.figure.causes_figure",
}
_BOLD = re.compile("\x1b\\[1m(.*?)\x1b\\[0m", re.DOTALL)
_CODES = re.compile("\x1b\\[[0-9;]*m")
_ALIGNED = re.compile(r"^ |\S  +\S|^\[", re.MULTILINE)  # columns, indents and bars need letters of one width


def text_of(answer: object) -> str:
    """What the command line prints, without colour."""
    return str(_known(TEXTS, answer)(answer))


def figure_of(answer: object, **options: Any) -> Figure:
    """The one description of an answer's chart, for every way to draw it."""
    name = type(answer).__name__
    if name not in CHARTS:
        raise BadValue(f"there is no chart of a {name}", looked_in=", ".join(CHARTS), hint="`print(answer)` shows it as text")
    found: Figure = _known(CHARTS, answer)(answer, **options)
    return found


def plotly_of(answer: object, **options: Any) -> Chart:
    """The same chart drawn by Plotly, which is imported here only."""
    from gpuwise.render.plotly import as_plotly, check_plotly

    check_plotly()
    return as_plotly(figure_of(answer, **options))


def html_of(answer: object) -> str:
    """Text and chart in one piece that needs no other file; it takes the colours of the notebook, light or dark."""
    text = "".join(_block(block) for block in re.split(r"\n\s*\n", _bold_text(answer).strip("\n")))
    try:
        chart = f"<figure>{draw(figure_of(answer))}</figure>"
    except GpuwiseError:  # there is nothing to draw: the text stands alone
        chart = ""
    return f'<div class="gpuwise"><style>{_STYLE}</style>{text}{chart}</div>'


def _known(table: dict[str, str], answer: object) -> Callable[..., Any]:
    module, _, function = table[type(answer).__name__].rpartition(".")
    found: Callable[..., Any] = getattr(import_module(f"gpuwise.{module}"), function)
    return found


def _bold_text(answer: object) -> str:
    return str(_known(TEXTS, answer)(answer, colour=True))


def _block(block: str) -> str:
    """Tables keep their columns, sentences flow; everything is escaped."""
    said = _CODES.sub("", _BOLD.sub(r"<b>\1</b>", html.escape(block, quote=False)))
    return f"<pre>{said}</pre>" if _ALIGNED.search(block) else "".join(f"<p>{line}</p>" for line in said.splitlines())


_STYLE = (
    ".gpuwise{color:inherit;max-width:76em}.gpuwise p{margin:.3em 0}"
    ".gpuwise pre{font:12.5px/1.45 ui-monospace,Menlo,Consolas,monospace;color:inherit;background:none;margin:.6em 0;"
    "overflow-x:auto;white-space:pre}.gpuwise figure{margin:1em 0 0;overflow-x:auto}"
    f".gpuwise svg{{max-width:100%;min-width:60em;height:auto}}{page_inks('.gpuwise svg')}"
)
