"""Describes a chart as plain data: values, labels and colour roles. Independent of pixels and file formats."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Axis", "Bar", "Bars", "Figure", "Line", "Mark", "Plot", "Segment", "Series"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis. `unit` is a unit that takes SI prefixes (s, FLOP/s), `%` for shares, or empty for plain numbers."""

    title: str
    low: float
    high: float
    unit: str = ""
    log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One point; `low` and `high` are its range along y, `weight` how much larger than usual it is drawn."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    weight: float = 1.0
    label: str = ""
    tip: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points of one kind; `colour` is a place in the palette, which also sets the shape."""

    label: str
    colour: int
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line through points, such as a roof or the diagonal. `colour` is a place in the palette, or None for a plain one."""

    points: tuple[tuple[float, float], ...]
    label: str = ""
    dashed: bool = False
    colour: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Points and lines over two axes. `share` is its part of the figure's width."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    lines: tuple[Line, ...] = ()
    share: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A piece of a bar. `colour` is a place in the palette, or None where it stands for no series."""

    value: float
    colour: int | None = None
    tip: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One row: its pieces one after the other, the range of their end, and a word behind it. Without pieces it is a heading.

    What is shown for comparison only, or cannot be had, is `faint`.
    """

    label: str
    segments: tuple[Segment, ...] = ()
    low: float | None = None
    high: float | None = None
    note: str = ""
    faint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Rows of bars over one axis. `labelled` is off where the panel to the left already names the rows."""

    title: str
    axis: Axis
    bars: tuple[Bar, ...]
    labelled: bool = True
    share: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Panels side by side under one title. `legend` names colours; `footer` says of when and where the data are."""

    title: str
    subtitle: str = ""
    panels: tuple[Plot | Bars, ...]
    legend: tuple[tuple[str, int], ...] = ()
    footer: str = ""
