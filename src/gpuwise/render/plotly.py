"""Draws charts with Plotly from the same description as for SVG, to hover, zoom and edit in a notebook."""

from __future__ import annotations

import html
import math
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from gpuwise.core.errors import MissingExtra
from gpuwise.render import look
from gpuwise.render.axes import labels, ticks
from gpuwise.render.chart import Axis, Bars, Figure, Line, Plot, Series

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as Chart

__all__ = ["as_plotly", "check_plotly"]

_SECONDS = 60.0  # above, times are told in minutes and more, which Plotly's own ticks cannot
_SYMBOLS = {"circle": "circle", "square": "square", "triangle": "triangle-up", "diamond": "diamond"}
_ROW, _PLOT_HEIGHT = 27, 380
_ABOVE, _BELOW = 150, 100  # title, legend and panel titles; axis and footer
_NOTE_ROOM = 1.45  # of an axis whose bars have words behind them


def check_plotly() -> None:
    """Whether Plotly is there, before anything is drawn."""
    if find_spec("plotly") is None:
        raise MissingExtra("plotly", extra="notebook", needed_for="a Plotly figure")


def as_plotly(figure: Figure) -> Chart:
    """The whole figure. Colours and type are its template, so `update_layout(template="plotly_dark")` changes them all."""
    from plotly.subplots import make_subplots

    shares = [panel.share for panel in figure.panels]
    chart = make_subplots(
        rows=1,
        cols=len(figure.panels),
        column_widths=shares,
        subplot_titles=[_safe(panel.title) for panel in figure.panels],
        horizontal_spacing=min(0.14, 0.9 / len(figure.panels)),
    )
    names = {place: label for label, place in figure.legend}
    unnamed = set(names)
    for column, panel in enumerate(figure.panels, start=1):
        traces = _bars(panel, names) if isinstance(panel, Bars) else _plot(panel, names)
        for trace in traces:
            trace["showlegend"] = trace.get("legendgroup") in unnamed
            unnamed.discard(trace.get("legendgroup", -1))  # each colour is named once
            chart.add_trace(trace, row=1, col=column)
        across, along = _axes(panel)
        chart.update_xaxes(across, row=1, col=column)
        chart.update_yaxes(along, row=1, col=column)
    height = _height(figure)
    inside = height - _ABOVE - _BELOW
    chart.update_layout(
        template=_template(),
        height=height,
        barmode="overlay",
        margin={"t": _ABOVE, "b": _BELOW},
        title={"text": _heading(figure), "y": 1 - 30 / height, "yanchor": "top"},
        legend={"y": 1 + 30 / inside},
    )
    at = {"x": 0, "y": 0, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "top"}
    chart.add_annotation(text=_safe(figure.footer), yshift=-64, showarrow=False, **at)
    return chart


def _heading(figure: Figure) -> str:
    return _safe(figure.title) + (f"<br><sup>{_safe(figure.subtitle)}</sup>" if figure.subtitle else "")


def _safe(text: str) -> str:
    """Plotly reads a little markup; names are data."""
    return html.escape(text, quote=False)


def _height(figure: Figure) -> int:
    rows = max((len(panel.bars) for panel in figure.panels if isinstance(panel, Bars)), default=0)
    plots = any(isinstance(panel, Plot) for panel in figure.panels)
    return _ABOVE + _BELOW + max(_ROW * max(rows, 3), _PLOT_HEIGHT if plots else 0)


def _template() -> dict[str, Any]:
    line = {"gridcolor": look.GRID, "linecolor": look.GREY, "zeroline": False}
    return {
        "layout": {
            "font": {"family": look.FONT, "color": look.INK, "size": look.SIZES["label"]},
            "colorway": list(look.PALETTE),
            "paper_bgcolor": look.BACKGROUND,
            "plot_bgcolor": look.BACKGROUND,
            "legend": {"orientation": "h", "yanchor": "bottom", "x": 0},
            "title": {"x": 0.02, "font": {"size": look.SIZES["title"]}},
            "xaxis": line,
            "yaxis": line,
            "hoverlabel": {"align": "left"},
        }
    }


def _colour(place: int | None) -> str:
    return look.PLAIN if place is None else look.PALETTE[place % len(look.PALETTE)]


# ---------------------------------------------------------------- axes


def _axes(panel: Plot | Bars) -> tuple[dict[str, Any], dict[str, Any]]:
    if isinstance(panel, Plot):
        return _axis(panel.x), _axis(panel.y)
    across = _axis(panel.axis)
    if any(bar.note for bar in panel.bars):
        across["range"] = [panel.axis.low, panel.axis.low + (panel.axis.high - panel.axis.low) * _NOTE_ROOM]
    labels = [_safe(bar.label) if bar.segments else f"<b>{_safe(bar.label)}</b>" for bar in panel.bars]
    rows = {"tickvals": list(range(len(labels))), "ticktext": labels, "showgrid": False, "showticklabels": panel.labelled}
    return across, {**rows, "range": [len(labels) - 0.4, -0.6], "automargin": True}


def _axis(axis: Axis) -> dict[str, Any]:
    found: dict[str, Any] = {"title": {"text": _safe(axis.title)}, "range": [axis.low, axis.high]}
    if axis.log:
        found |= {"type": "log", "range": [math.log10(axis.low), math.log10(axis.high)]}
    if axis.log or (axis.unit == "s" and axis.high > _SECONDS):
        places = ticks(axis)
        found |= {"tickvals": places, "ticktext": labels(axis, places)}
    elif axis.unit == "%":
        found["tickformat"] = ".0%"
    elif axis.unit:
        found |= {"tickformat": "~s", "ticksuffix": axis.unit}
    return found


# ---------------------------------------------------------------- marks


def _plot(panel: Plot, names: dict[int, str]) -> list[dict[str, Any]]:
    return [*(_line(line, names) for line in panel.lines), *(_series(series, names) for series in panel.series if series.marks)]


def _line(line: Line, names: dict[int, str]) -> dict[str, Any]:
    name = line.label or ("" if line.colour is None else names.get(line.colour, ""))
    return {
        "type": "scatter",
        "mode": "lines",
        "name": _safe(name),
        "x": [x for x, _ in line.points],
        "y": [y for _, y in line.points],
        "line": {
            "color": look.MUTED if line.colour is None else _colour(line.colour),
            "dash": "dash" if line.dashed else "solid",
            "width": 1.5 if line.colour is None else 2.2,
        },
        "hoverinfo": "name" if name else "skip",
        "legendgroup": line.colour,
    }


def _series(series: Series, names: dict[int, str]) -> dict[str, Any]:
    marks = series.marks
    found: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers+text" if any(mark.label for mark in marks) else "markers",
        "name": _safe(names.get(series.colour, series.label)),
        "x": [mark.x for mark in marks],
        "y": [mark.y for mark in marks],
        "text": [_safe(mark.label) for mark in marks],
        "textposition": "middle right",
        "hovertext": [_safe(mark.tip) for mark in marks],
        "hoverinfo": "text",
        "marker": {
            "color": _colour(series.colour),
            "symbol": _SYMBOLS[look.SHAPES[series.colour % len(look.SHAPES)]],
            "size": [(6.0 if len(marks) > 50 else 10.0) * mark.weight**0.5 for mark in marks],
            "opacity": 0.6 if len(marks) > 50 else 0.9,
        },
        "legendgroup": series.colour,
    }
    if any(mark.high is not None for mark in marks):
        found["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [(mark.high - mark.y) if mark.high is not None else 0.0 for mark in marks],
            "arrayminus": [(mark.y - mark.low) if mark.low is not None else 0.0 for mark in marks],
            "thickness": 1.2,
            "width": 0,
        }
    return found


def _bars(panel: Bars, names: dict[int, str]) -> list[dict[str, Any]]:
    pieces: dict[int | None, list[tuple[int, float, float, str, bool]]] = {}
    for row, bar in enumerate(panel.bars):
        start = 0.0
        for segment in bar.segments:
            pieces.setdefault(segment.colour, []).append((row, start, segment.value, segment.tip, bar.faint))
            start += segment.value
    traces = [_pieces(colour, found, names) for colour, found in pieces.items()]
    return [*traces, *_ranges(panel), *_notes(panel)]


def _pieces(colour: int | None, found: list[tuple[int, float, float, str, bool]], names: dict[int, str]) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": _safe(names.get(colour, "")) if colour is not None else "",
        "y": [row for row, *_ in found],
        "base": [start for _, start, *_ in found],
        "x": [value for _, _, value, *_ in found],
        "width": 0.62,
        "hovertext": [_safe(tip) for *_, tip, _ in found],
        "hoverinfo": "text",
        "marker": {"color": _colour(colour), "opacity": [look.FAINT if faint else 1.0 for *_, faint in found]},
        "legendgroup": colour,
    }


def _ranges(panel: Bars) -> list[dict[str, Any]]:
    rows = [(row, bar.low, bar.high) for row, bar in enumerate(panel.bars) if bar.low is not None and bar.high is not None]
    if not rows:
        return []
    reach = {"type": "data", "symmetric": False, "array": [high - low for _, low, high in rows], "arrayminus": [0.0] * len(rows)}
    where = {"x": [low for _, low, _ in rows], "y": [row for row, *_ in rows]}
    unseen = {"marker": {"size": 1, "opacity": 0}, "hoverinfo": "skip", "mode": "markers"}
    return [{"type": "scatter", **where, **unseen, "error_x": {**reach, "color": look.MUTED, "thickness": 1.4, "width": 4}}]


def _notes(panel: Bars) -> list[dict[str, Any]]:
    ends = [max(sum(segment.value for segment in bar.segments), bar.high or 0.0) for bar in panel.bars]
    rows = [(row, ends[row], bar.note) for row, bar in enumerate(panel.bars) if bar.note]
    if not rows:
        return []
    where = {"x": [end for _, end, _ in rows], "y": [row for row, *_ in rows], "text": [f" {_safe(note)}" for *_, note in rows]}
    how = {"mode": "text", "textposition": "middle right", "hoverinfo": "skip", "cliponaxis": False}
    return [{"type": "scatter", **where, **how}]
