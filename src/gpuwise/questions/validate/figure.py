"""The chart for `validate`: predicted against measured, and the error by GPU compared with simple rules."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.core.units import format_si
from gpuwise.evidence.types import Accuracy, Residual
from gpuwise.questions.validate.answer import ValidateAnswer
from gpuwise.render.chart import Axis, Bar, Bars, Figure, Line, Mark, Plot, Segment, Series

__all__ = ["accuracy_figure"]

_COLOURS = 8
_RANGES = 60  # ranges drawn; all of them would hide the points
_POINTS = 4000  # more would make the file slow to open and the points impossible to tell apart
_GROUPS = 24
_RULES = {
    "flops_ratio": "by FLOP/s",
    "bandwidth_ratio": "by bandwidth",
    "sqrt_of_both": "by √ of both",
    "roofline": "roofline",
}


def accuracy_figure(answer: ValidateAnswer, *, by: str = "gpu") -> Figure:
    """Both panels, from the residuals and the breakdown that the text shows."""
    drawn = answer.residuals[:: -(-len(answer.residuals) // _POINTS) or 1]
    series = _series(drawn)
    overall = answer.overall
    unseen = "; each row is predicted by a fit that excludes its GPU" if answer.unseen_family is not None else ""
    errors = f"median error {_percent(overall.median_ape)}, 90% below {_percent(overall.p90_ape)}"
    held = f"the 80% ranges contain {_percent(overall.coverage_fraction)} of the rows"
    return Figure(
        title=f"Predicted and measured times: {len(answer.residuals):,} rows of {answer.table}",
        subtitle=f"{errors}; {held}{unseen}",
        panels=(_scatter(answer, series), _errors(answer, by)),
        legend=tuple((entry.label, entry.colour) for entry in series) if len(series) > 1 else (),
        footer=f"gpuwise validate.{_thinned(answer, drawn)} Lines: the 80% range {_sample(drawn)}. Data from {answer.data_date}.",
    )


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f}%"


def _thinned(answer: ValidateAnswer, drawn: Sequence[Residual]) -> str:
    whole = len(drawn) == len(answer.residuals)
    return "" if whole else f" Points: {len(drawn):,} of {len(answer.residuals):,} rows, sampled evenly."


def _sample(rows: Sequence[Residual]) -> str:
    return "of each row" if _every(rows) == 1 else f"of one row in {_every(rows)}"


def _every(rows: Sequence[Residual]) -> int:
    return max(1, len(rows) // _RANGES)


def _series(rows: Sequence[Residual]) -> tuple[Series, ...]:
    """Points by source, the largest first; beyond the palette all others are one."""
    by: dict[str, list[Residual]] = {}
    for row in rows:
        by.setdefault(row.labels.get("source", ""), []).append(row)
    names = sorted(by, key=lambda name: (-len(by[name]), name))
    ranged = {id(row) for row in sorted(rows, key=lambda row: row.measured_s)[:: _every(rows)]}
    shown = [(name, by[name]) for name in names[: _COLOURS - 1 if len(names) > _COLOURS else _COLOURS]]
    rest = [row for name in names[len(shown) :] for row in by[name]]
    groups = [*shown, *([(f"{len(names) - len(shown)} others", rest)] if rest else [])]
    return tuple(
        Series(
            label=f"{name or 'rows'} ({len(members):,})",
            colour=colour,
            marks=tuple(_mark(row, id(row) in ranged) for row in members),
        )
        for colour, (name, members) in enumerate(groups)
    )


def _mark(row: Residual, ranged: bool) -> Mark:
    off = row.predicted_s / row.measured_s - 1
    what = " ".join(part for part in row.setup[1:4] if part)
    tip = (
        f"{row.gpu}, {what}: predicted {format_si(row.predicted_s, 's')}, measured {format_si(row.measured_s, 's')} ({off:+.0%})"
    )
    low, high = (row.low_s, row.high_s) if ranged else (None, None)
    return Mark(x=row.measured_s, y=row.predicted_s, low=low, high=high, tip=tip)


def _scatter(answer: ValidateAnswer, series: tuple[Series, ...]) -> Plot:
    values = [value for row in answer.residuals for value in (row.measured_s, row.predicted_s)] or [1e-3, 1.0]
    low, high = min(values) / 1.25, max(values) * 1.25
    return Plot(
        title="Time per step, both axes logarithmic" if answer.table == "e2e" else "Time, both axes logarithmic",
        x=Axis(title="measured", low=low, high=high, unit="s", log=True),
        y=Axis(title="predicted", low=low, high=high, unit="s", log=True),
        series=series,
        lines=(Line(points=((low, low), (high, high)), dashed=True),),
        share=0.54,
    )


def _errors(answer: ValidateAnswer, by: str) -> Bars:
    groups = [(name, entry) for name, entry in answer.by[by].items() if entry.median_ape is not None]
    kept = sorted(groups, key=lambda item: -item[1].rows)[:_GROUPS]
    kept.sort(key=lambda item: item[1].median_ape or 0.0)
    bars = [_group(name, entry) for name, entry in kept]
    if answer.overall.median_ape is not None:
        bars.append(_group(f"all {len(answer.residuals):,} rows", answer.overall))
    rules = [
        Bar(
            label=_RULES.get(name, name),
            segments=(Segment(value=figures["median_ape"], tip=f"median {_percent(figures['median_ape'])}"),),
            note=_percent(figures["median_ape"]),
            faint=True,
        )
        for name, figures in answer.baselines.items()
    ]
    longest = max(
        [entry.p90_ape or 0.0 for _, entry in kept] + [figures["median_ape"] for figures in answer.baselines.values()] + [0.1]
    )
    dropped = f" (the {_GROUPS} groups with the most rows)" if len(groups) > _GROUPS else ""
    return Bars(
        title=f"Error by {'GPU' if by == 'gpu' else by}{dropped}: the bar ends at the median, the line at the 90th percentile",
        axis=Axis(title="error", low=0.0, high=longest * 1.04, unit="%"),
        bars=(*bars, *([Bar(label="simple rules"), *rules] if rules else [])),
        share=0.46,
    )


def _group(name: str, entry: Accuracy) -> Bar:
    median, most = entry.median_ape or 0.0, entry.p90_ape or 0.0
    tip = f"{name}: {entry.rows:,} rows, median {_percent(median)}, 90% below {_percent(most)}, bias {_percent(entry.bias)}"
    return Bar(
        label=name or "rows",
        segments=(Segment(value=median, tip=tip),),
        low=median,
        high=max(median, most),
        note=f"{_percent(median)}, {_percent(most)}",
    )
