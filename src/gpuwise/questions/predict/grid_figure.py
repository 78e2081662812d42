"""The chart for `predict` at several batches: step time by batch, with one panel per precision and one line per GPU."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.core.units import format_si
from gpuwise.questions.common.prediction_types import Prediction
from gpuwise.questions.predict.grid import GridAnswer
from gpuwise.render.chart import Axis, Figure, Line, Mark, Plot, Series
from gpuwise.render.text import range_words

__all__ = ["grid_figure"]


def grid_figure(answer: GridAnswer) -> Figure:
    """Both axes are logarithmic: a step that grows with its batch is a straight rising line, one that waits for the host is
    flat.
    """
    names = list(dict.fromkeys(result.gpu.name for result in answer.results))
    precisions = list(dict.fromkeys(result.precision for result in answer.results))
    sizes = [result.batch for result in answer.results]
    x = Axis(title="batch", low=min(sizes) / 1.2, high=max(sizes) * 1.2, log=True)
    low, high = (min(result.step_low_s for result in answer.results), max(result.step_high_s for result in answer.results))
    y = Axis(title="time per step", low=low / 1.1, high=high * 1.1, unit="s", log=True)
    first = answer.results[0]
    ranges = range_words(one.gpu.name for one in answer.results if one.range_basis == "assumed")
    return Figure(
        title=f"{answer.model}: time per step by batch",
        subtitle=f"{first.mode}; lower is faster; a flat line means that the host is the limit",
        panels=tuple(_panel(precision, answer.results, names, x, y) for precision in precisions),
        legend=tuple((name, place) for place, name in enumerate(names)),
        footer=f"gpuwise predict. Vertical lines: {ranges}. Data from {answer.data_date}.",
    )


def _panel(precision: str, results: Sequence[Prediction], names: Sequence[str], x: Axis, y: Axis) -> Plot:
    own = {name: [one for one in results if one.precision == precision and one.gpu.name == name] for name in names}
    return Plot(
        title=precision,
        x=x,
        y=y,
        series=tuple(
            Series(label=name, colour=place, marks=tuple(_mark(one) for one in own[name])) for place, name in enumerate(names)
        ),
        lines=tuple(
            Line(points=tuple((float(one.batch), one.step_s) for one in own[name]), colour=place)
            for place, name in enumerate(names)
            if len(own[name]) > 1
        ),
    )


def _mark(result: Prediction) -> Mark:
    fits = "" if result.fits else ", does not fit"
    tip = (
        f"{result.gpu.name}, {result.precision}, batch {result.batch}: {format_si(result.step_s, 's')}, limited by {result.bound}"
    )
    return Mark(x=float(result.batch), y=result.step_s, low=result.step_low_s, high=result.step_high_s, tip=tip + fits)
