"""Show results without the command line: as text, as HTML for Jupyter, or as a Plotly figure."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.questions.common.options import Shown
from gpuwise.render.chart import Figure
from gpuwise.render.inks import page_inks
from gpuwise.render.svg import draw

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as Chart

__all__ = ["figure_of", "html_of", "plotly_of", "text_of"]

_BOLD = re.compile("\x1b\\[1m(.*?)\x1b\\[0m", re.DOTALL)
_CODES = re.compile("\x1b\\[[0-9;]*m")
_ALIGNED = re.compile(r"^ |\S  +\S|^\[", re.MULTILINE)  # columns, indents and bars need letters of one width


def text_of(answer: Shown) -> str:
    """What the command line prints, without colour."""
    return str(_named(answer.TEXT)(answer))


def figure_of(answer: Shown, **options: Any) -> Figure:
    """The one description of an answer's chart, for every way to draw it."""
    if not answer.FIGURE:
        raise BadValue(f"no chart is available for {type(answer).__name__}", hint="use `print(answer)` to show it as text")
    found: Figure = _named(answer.FIGURE)(answer, **options)
    return found


def plotly_of(answer: Shown, **options: Any) -> Chart:
    """The same chart drawn by Plotly, which is imported here only."""
    from gpuwise.render.plotly import as_plotly, check_plotly

    check_plotly()
    return as_plotly(figure_of(answer, **options))


def html_of(answer: Shown) -> str:
    """Text and chart in one piece that needs no other file; it takes the colours of the notebook, light or dark."""
    text = "".join(_block(block) for block in re.split(r"\n\s*\n", _bold_text(answer).strip("\n")))
    try:
        chart = f"<figure>{draw(figure_of(answer))}</figure>"
    except GpuwiseError:  # there is nothing to draw: the text stands alone
        chart = ""
    return f'<div class="gpuwise"><style>{_STYLE}</style>{text}{chart}</div>'


def _named(where: str) -> Callable[..., Any]:
    module, _, function = where.rpartition(".")
    found: Callable[..., Any] = getattr(import_module(f"gpuwise.{module}"), function)
    return found


def _bold_text(answer: Shown) -> str:
    return str(_named(answer.TEXT)(answer, colour=True))


def _block(block: str) -> str:
    """Tables keep their columns, sentences flow; everything is escaped."""
    said = _CODES.sub("", _BOLD.sub(_bold_lines, html.escape(block, quote=False)))
    return f"<pre>{said}</pre>" if _ALIGNED.search(block) else "".join(f"<p>{line}</p>" for line in said.splitlines())


def _bold_lines(found: re.Match[str]) -> str:
    """Bold text that wraps is bold on each of its lines, because every line becomes a paragraph of its own."""
    return "\n".join(f"<b>{line}</b>" for line in found[1].splitlines())


_STYLE = (
    ".gpuwise{color:inherit;max-width:76em}.gpuwise p{margin:.3em 0}"
    ".gpuwise pre{font:12.5px/1.45 ui-monospace,Menlo,Consolas,monospace;color:inherit;background:none;margin:.6em 0;"
    "overflow-x:auto;white-space:pre}.gpuwise figure{margin:1em 0 0;overflow-x:auto}"
    f".gpuwise svg{{max-width:100%;min-width:60em;height:auto}}{page_inks('.gpuwise svg')}"
)
