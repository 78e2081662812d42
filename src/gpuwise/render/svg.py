"""Draws charts as SVG. Every mark has its tooltip as `<title>`, which browsers show on hover."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from gpuwise.render import look
from gpuwise.render.axes import labels, place, ticks
from gpuwise.render.chart import Axis, Bar, Bars, Figure, Line, Mark, Plot, Series
from gpuwise.render.look import SIZES, text_width

__all__ = ["draw"]

_MARGIN, _GAP = 32.0, 44.0
_ROW, _THICK = 25.0, 15.0
_PLOT_HEIGHT = 350.0  # at least; it grows with the panel beside it
_HEAD, _FOOT = 30.0, 46.0  # of a panel: its title above, its axis below


@dataclass(frozen=True, slots=True)
class _Box:
    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height


def draw(figure: Figure) -> str:
    """The whole figure as one SVG text."""
    legend, legend_rows = _legend(figure.legend, 74.0 if figure.subtitle else 54.0)
    top = (70.0 if figure.subtitle else 50.0) + 22.0 * legend_rows + 14.0
    inner = look.WIDTH - 2 * _MARGIN - _GAP * (len(figure.panels) - 1)
    total = sum(panel.share for panel in figure.panels)
    height = max(_height(panel) for panel in figure.panels)
    parts, left = [], _MARGIN
    for panel in figure.panels:
        width = inner * panel.share / total
        box = _Box(left, top, width, height)
        parts += _bars(panel, box) if isinstance(panel, Bars) else _plot(panel, box)
        left += width + _GAP
    bottom = top + height + 40.0
    head = [_text(_MARGIN, 38.0, figure.title, "title", weight=600)]
    head += [_text(_MARGIN, 60.0, figure.subtitle, "subtitle", colour=look.MUTED)] if figure.subtitle else []
    foot = [_text(_MARGIN, bottom - 14.0, figure.footer, "footer", colour=look.MUTED)]
    return _document(figure, bottom, [*head, *legend, *parts, *foot])


def _document(figure: Figure, height: float, parts: Sequence[str]) -> str:
    size = f'width="{look.WIDTH:.0f}" height="{height:.0f}" viewBox="0 0 {look.WIDTH:.0f} {height:.0f}"'
    described = f"<title>{html.escape(figure.title)}</title><desc>{html.escape(figure.subtitle)}</desc>"
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{look.FONT}">'
    ground = f'<rect width="100%" height="100%" fill="{look.BACKGROUND}"/>'
    return "\n".join([opening, described, ground, *parts, "</svg>\n"])


def _height(panel: Plot | Bars) -> float:
    return _HEAD + _FOOT + (_PLOT_HEIGHT if isinstance(panel, Plot) else _ROW * max(3, len(panel.bars)))


# ---------------------------------------------------------------- shapes


def _text(
    x: float,
    y: float,
    text: str,
    size: str,
    *,
    anchor: str = "start",
    colour: str = look.INK,
    weight: int = 400,
    turned: bool = False,
) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{SIZES[size]:g}" font-weight="{weight}" fill="{colour}" '
        f'text-anchor="{anchor}"{turn}>{html.escape(text)}</text>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1.0, extra: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width:g}"{extra}/>'


def _shape(x: float, y: float, radius: float, colour: int, tip: str = "", opacity: float = 1.0) -> str:
    """A mark in the colour and the shape of its place in the palette, with a thin white edge so that neighbours part."""
    fill = look.PALETTE[colour % len(look.PALETTE)]
    shape = look.SHAPES[colour % len(look.SHAPES)]
    style = f'fill="{fill}" fill-opacity="{opacity:g}" stroke="#FFFFFF" stroke-width="0.7"'
    inside = f"<title>{html.escape(tip)}</title>" if tip else ""
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" {style}>{inside}</circle>'
    wide = radius * 1.15
    corners = {
        "square": [(-0.82, -0.82), (0.82, -0.82), (0.82, 0.82), (-0.82, 0.82)],
        "triangle": [(0, -1.1), (1.0, 0.75), (-1.0, 0.75)],
        "diamond": [(0, -1.15), (1.0, 0), (0, 1.15), (-1.0, 0)],
    }[shape]
    points = " ".join(f"{x + wide * across:.1f},{y + wide * down:.1f}" for across, down in corners)
    return f'<polygon points="{points}" {style}>{inside}</polygon>'


def _legend(entries: Sequence[tuple[str, int]], top: float) -> tuple[list[str], int]:
    """Names of colours from left to right, on as many lines as they need, and how many those are."""
    parts, left, row = [], _MARGIN, 0
    for label, colour in entries:
        width = 24.0 + text_width(label, SIZES["label"])
        if left > _MARGIN and left + width > look.WIDTH - _MARGIN:
            left, row = _MARGIN, row + 1
        y = top + 22.0 * row + 8.0
        parts += [_shape(left + 6.0, y, 5.0, colour), _text(left + 18.0, y + 4.2, label, "label")]
        left += width + 8.0
    return parts, row + 1 if entries else 0


# ---------------------------------------------------------------- points and lines


def _plot(panel: Plot, box: _Box) -> list[str]:
    values = ticks(panel.y)
    texts = labels(panel.y, values)
    gutter = 30.0 + max((text_width(text, SIZES["tick"]) for text in texts), default=0.0)
    area = _Box(box.left + gutter, box.top + _HEAD, box.width - gutter - 10.0, box.height - _HEAD - _FOOT)
    parts = [_text(area.left, box.top + 12.0, panel.title, "panel", weight=600)]
    for value, text in zip(values, texts, strict=True):
        y = area.bottom - place(panel.y, value) * area.height
        parts.append(_line(area.left, y, area.right, y, look.GRID))
        parts.append(_text(area.left - 8.0, y + 4.0, text, "tick", anchor="end", colour=look.MUTED))
    middle = area.top + area.height / 2
    parts.append(_text(box.left + 10.0, middle, panel.y.title, "label", anchor="middle", colour=look.MUTED, turned=True))
    parts += _bottom_axis(panel.x, area)
    parts += [part for line in panel.lines for part in _drawn(line, panel, area)]
    parts += [part for series in panel.series for part in _ranges(series, panel, area)]
    marks = [(mark, series.colour) for series in panel.series for mark in series.marks]
    crowded = len(marks) > 100
    for mark, colour in sorted(marks, key=lambda entry: -entry[0].weight):
        parts += _mark(mark, colour, panel, area, 0.6 if crowded else 0.9, 3.4 if crowded else 5.5)
    return parts


def _bottom_axis(axis: Axis, area: _Box) -> list[str]:
    parts = []
    values = ticks(axis, max(2, int(area.width / 60.0)))
    for value, text in zip(values, labels(axis, values), strict=True):
        x = area.left + place(axis, value) * area.width
        parts.append(_line(x, area.top, x, area.bottom, look.GRID))
        parts.append(_text(x, area.bottom + 17.0, text, "tick", anchor="middle", colour=look.MUTED))
    parts.append(_line(area.left, area.bottom, area.right, area.bottom, look.GREY))
    title = _text(area.left + area.width / 2, area.bottom + 36.0, axis.title, "label", anchor="middle", colour=look.MUTED)
    return [*parts, title]


def _spot(x: float, y: float, panel: Plot, area: _Box) -> tuple[float, float]:
    return area.left + place(panel.x, x) * area.width, area.bottom - place(panel.y, y) * area.height


def _drawn(line: Line, panel: Plot, area: _Box) -> list[str]:
    spots = [_spot(x, y, panel, area) for x, y in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    dashes = ' stroke-dasharray="5 4"' if line.dashed else ""
    stroke, width = (look.MUTED, 1.3) if line.colour is None else (look.PALETTE[line.colour % len(look.PALETTE)], 2.2)
    parts = [f'<polyline points="{path}" fill="none" stroke="{stroke}" stroke-width="{width}"{dashes}/>']
    if line.label:
        x, y = spots[-1]
        parts.append(_text(x - 4.0, y - 7.0, line.label, "tick", anchor="end", colour=look.MUTED))
    return parts


def _ranges(series: Series, panel: Plot, area: _Box) -> list[str]:
    colour, parts = look.PALETTE[series.colour % len(look.PALETTE)], []
    for mark in series.marks:
        if mark.low is not None and mark.high is not None:
            (x, low), (_, high) = _spot(mark.x, mark.low, panel, area), _spot(mark.x, mark.high, panel, area)
            parts.append(_line(x, low, x, high, colour, 1.2, f' stroke-opacity="{look.FAINT}"'))
    return parts


def _mark(mark: Mark, colour: int, panel: Plot, area: _Box, opacity: float, radius: float) -> list[str]:
    x, y = _spot(mark.x, mark.y, panel, area)
    size = radius * mark.weight**0.5
    parts = [_shape(x, y, size, colour, mark.tip, opacity)]
    if mark.label:
        left = x + size + 6.0 + text_width(mark.label, SIZES["label"]) < area.right
        parts.append(
            _text(x + (size + 5.0) * (1 if left else -1), y + 4.0, mark.label, "label", anchor="start" if left else "end")
        )
    return parts


# ---------------------------------------------------------------- bars


def _bars(panel: Bars, box: _Box) -> list[str]:
    names = [text_width(bar.label, SIZES["label"]) for bar in panel.bars]
    gutter = max(names, default=0.0) + 10.0 if panel.labelled else 0.0
    behind = max((text_width(bar.note, SIZES["label"]) for bar in panel.bars), default=0.0)
    width = box.width - gutter - (behind + 12.0 if behind else 10.0)
    area = _Box(box.left + gutter, box.top + _HEAD, width, _ROW * max(3, len(panel.bars)))
    parts = [_text(box.left if panel.labelled else area.left, box.top + 12.0, panel.title, "panel", weight=600)]
    parts += _bottom_axis(panel.axis, area)
    for row, bar in enumerate(panel.bars):
        parts += _bar(bar, panel, area, area.top + _ROW * (row + 0.5))
    return parts


def _bar(bar: Bar, panel: Bars, area: _Box, middle: float) -> list[str]:
    parts = []
    if panel.labelled:
        heading = not bar.segments
        colour, weight = (look.MUTED, 600) if heading else (look.INK, 400)
        parts.append(_text(area.left - 8.0, middle + 4.2, bar.label, "label", anchor="end", colour=colour, weight=weight))
    total, end = 0.0, area.left
    for segment in bar.segments:
        start = area.left + place(panel.axis, total) * area.width
        total += segment.value
        end = area.left + place(panel.axis, total) * area.width
        fill = look.PLAIN if segment.colour is None else look.PALETTE[segment.colour % len(look.PALETTE)]
        opacity = f' fill-opacity="{look.FAINT}"' if bar.faint else ""
        inside = f"<title>{html.escape(segment.tip)}</title>" if segment.tip else ""
        parts.append(
            f'<rect x="{start:.1f}" y="{middle - _THICK / 2:.1f}" width="{max(0.0, end - start):.1f}" height="{_THICK:g}" '
            f'rx="1.5" fill="{fill}"{opacity}>{inside}</rect>'
        )
    if bar.low is not None and bar.high is not None:
        low, high = (area.left + place(panel.axis, value) * area.width for value in (bar.low, bar.high))
        parts.append(_line(low, middle, high, middle, look.INK, 1.3))
        parts += [_line(x, middle - 3.5, x, middle + 3.5, look.INK, 1.3) for x in (low, high)]
        end = max(end, high)
    if bar.note:
        parts.append(_text(end + 7.0, middle + 4.2, bar.note, "label", colour=look.MUTED if bar.faint else look.INK))
    return parts
