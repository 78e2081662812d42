"""A bar chart of all GPUs: speed, or speed per money, with one panel per kind of work; the segments of a bar are what each
precision adds.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.core.errors import BadValue
from gpuwise.core.text import plural
from gpuwise.questions.charts.answer import PRECISIONS, ChartRow, ChartsAnswer
from gpuwise.questions.charts.ask import Work
from gpuwise.questions.charts.options import check_chart
from gpuwise.render.chart import Axis, Bar, Bars, Figure, Segment
from gpuwise.render.look import SIZES, WIDTH, text_width

__all__ = ["charts_figure"]


def charts_figure(answer: ChartsAnswer, chart: str = "speed") -> Figure:
    """One row for each GPU, with the kinds of work side by side."""
    check_chart(chart)
    value, owned = chart != "speed", chart == "owned"
    rows = _rows(answer, value=value, owned=owned)
    base = answer.baseline
    paid = f" at {answer.query.book.currency.show(base.price.usd)}" if value and base.price else ""
    used = [name for name in PRECISIONS if any(name in work.precisions for work in answer.query.work)]
    marks = "No bar: the work does not fit. *: no GPU of this generation was measured."
    marks += " Pale bars: the launch price is more than 30 months old." if value else ""
    return Figure(
        title=_title(answer, chart),
        subtitle=f"1 is the {base.gpu.name}{paid} at its fastest. Longer is better. Each segment is the gain from a precision.",
        panels=tuple(_panel(answer, work, rows, chart, first=place == 0) for place, work in enumerate(answer.query.work)),
        legend=tuple((name, PRECISIONS.index(name)) for name in used),
        footer=f"gpuwise charts, data from {answer.data_date}. {marks} {_jobs(answer)}",
    )


def _jobs(answer: ChartsAnswer) -> str:
    return "With " + ", ".join(work.job.model for work in answer.query.work) + "."


def _title(answer: ChartsAnswer, chart: str) -> str:
    years = plural(f"{answer.query.owning.years:g}", "year")
    titles = {"speed": "Speed", "value": "Speed for the price", "owned": f"Speed for the total cost over {years}"}
    return titles[chart]


def _rows(answer: ChartsAnswer, *, value: bool, owned: bool) -> list[ChartRow]:
    if not value:
        return list(answer.rows)
    priced = [row for row in answer.rows if answer.value(row, owned=owned) is not None]
    if not priced:
        raise BadValue("no price is known for these GPUs", hint="try `--price 'RTX 3090=700'`")
    return sorted(priced, key=lambda row: -(answer.value(row, owned=owned) or 0.0))


def _panel(answer: ChartsAnswer, work: Work, rows: Sequence[ChartRow], chart: str, *, first: bool) -> Bars:
    bars = tuple(_bar(answer, work, row, chart) for row in rows)
    longest = max((sum(segment.value for segment in bar.segments) for bar in bars), default=0.0) or 1.0
    names = max(text_width(row.label, SIZES["label"]) for row in rows)
    each = (WIDTH - names) / len(answer.query.work)
    return Bars(
        title=work.title,
        axis=Axis(
            title="relative speed" + (" for the price" if chart != "speed" and len(answer.query.work) < 4 else ""),
            low=0.0,
            high=longest,
        ),
        bars=bars,
        labelled=first,
        share=each + names if first else each,
    )


def _bar(answer: ChartsAnswer, work: Work, row: ChartRow, chart: str) -> Bar:
    factor = 1.0 if chart == "speed" else answer.per_price(row, owned=chart == "owned") or 0.0
    speeds = [(speed, name) for name in work.precisions if (speed := answer.speed(row, work.name, name))]
    pieces, reached = [], 0.0
    for speed, name in sorted(speeds):
        tip = f"{row.gpu.name}, {work.title}, {name}: {speed * factor:.2f}"
        pieces.append(Segment(value=speed * factor - reached, colour=PRECISIONS.index(name), tip=tip))
        reached = speed * factor
    return Bar(label=row.label, segments=tuple(pieces) or (Segment(value=0.0),), faint=chart != "speed" and not row.today)
