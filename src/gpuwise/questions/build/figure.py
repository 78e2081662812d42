"""The chart for `build`: the speed a GPU keeps at each power limit, by kind of work."""

from __future__ import annotations

from gpuwise.core.errors import BadValue
from gpuwise.questions.build.answer import BuildAnswer
from gpuwise.questions.common.machine import KINDS, PowerLimit
from gpuwise.render.chart import Axis, Figure, Line, Mark, Plot, Series

__all__ = ["power_figure"]


def power_figure(answer: BuildAnswer) -> Figure:
    """A panel for each GPU."""
    names = list(dict.fromkeys(point.gpu for point in answer.power_limits))
    if not names:
        raise BadValue(
            "there are no power limits to draw", hint="choose a card with a known power rating, such as `--gpu 'RTX 3090'`"
        )
    panels = tuple(_panel(name, [point for point in answer.power_limits if point.gpu == name], 1 / len(names)) for name in names)
    return Figure(
        title=f"{', '.join(names)}: speed under a power limit",
        subtitle="; ".join(f"{kind.title}: {kind.model}, batch {kind.batch}" for kind in KINDS),
        panels=panels,
        legend=tuple((kind.title, place) for place, kind in enumerate(KINDS)),
        footer=f"gpuwise build. Dashed line: speed proportional to power. {_law(answer)}Data from {answer.data_date}.",
    )


def _law(answer: BuildAnswer) -> str:
    """What the answer says of its power model, where it says something."""
    found = [entry for entry in answer.assumptions if entry.code == "power_model"]
    return "".join(f"Power model {entry.value}: {entry.effect}. " for entry in found)


def _panel(name: str, points: list[PowerLimit], share: float) -> Plot:
    most, least = points[0].watts, points[-1].watts
    series = tuple(
        Series(
            label=kind.title,
            colour=place,
            marks=tuple(
                Mark(
                    x=point.watts, y=point.relative_speed[kind.name], tip=_tip(kind.title, point, point.relative_speed[kind.name])
                )
                for point in points
            ),
        )
        for place, kind in enumerate(KINDS)
    )
    curves = tuple(Line(points=tuple((mark.x, mark.y) for mark in entry.marks)) for entry in series)
    lowest = min(mark.y for entry in series for mark in entry.marks)
    return Plot(
        title=name,
        x=Axis(title="power limit in watts", low=max(0.0, least - 0.05 * most), high=most * 1.02),
        y=Axis(title="speed", low=max(0.0, min(lowest, least / most) - 0.05), high=1.02, unit="%"),
        series=series,
        lines=(*curves, Line(points=((least, least / most), (most, 1.0)), dashed=True)),
        share=share,
    )


def _tip(kind: str, point: PowerLimit, speed: float) -> str:
    return f"{kind} at {point.watts:.0f} W: {100 * speed:.0f}% of the speed at full power"
