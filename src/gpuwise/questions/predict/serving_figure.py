"""The chart for a serving curve: total throughput against each user's waiting time per token."""

from __future__ import annotations

from gpuwise.core.units import format_si
from gpuwise.questions.common.language.answer import LanguagePrediction
from gpuwise.questions.predict.serving import ServingAnswer
from gpuwise.render.chart import Axis, Figure, Line, Mark, Plot, Series
from gpuwise.render.text import range_words

__all__ = ["serving_figure"]

_MOST_LABELS = 12  # of one GPU: more would cover each other
_WIDE = 8.0  # times the shortest wait: what is wider is drawn on a logarithmic axis


def serving_figure(answer: ServingAnswer) -> Figure:
    """More users are further up and to the right. A dashed line is the longest wait accepted."""
    names = list(dict.fromkeys(point.gpu.name for point in answer.points))
    told = [point.generation for point in answer.points]
    waits = [one.time_per_token_s for one in told] + ([answer.level.token_s] if answer.level.token_s else [])
    wide = max(waits) > _WIDE * min(waits)
    x = Axis(title="time per token", low=min(waits) / 1.15 if wide else 0.0, high=max(waits) * 1.15, unit="s", log=wide)
    low, high = min(one.tokens_per_s_low for one in told), max(one.tokens_per_s_high for one in told)
    y = Axis(title="tokens per second for all users", low=low / 1.1, high=high * 1.1, log=True)
    own = {name: [point for point in answer.points if point.gpu.name == name] for name in names}
    lines = [Line(points=_path(own[name]), colour=place) for place, name in enumerate(names) if len(own[name]) > 1]
    if answer.level.token_s is not None:
        wait = answer.level.token_s
        lines.append(Line(points=((wait, y.low), (wait, y.high)), label=format_si(wait, "s"), dashed=True))
    first = told[0]
    ranges = range_words(point.gpu.name for point in answer.points if point.range_basis == "assumed")
    return Figure(
        title=f"{answer.model}: throughput and time per token",
        subtitle=f"{first.weights} in {first.engine}, prompt {first.prompt:,}, output {first.output:,} tokens; "
        "labels show the number of users",
        panels=(
            Plot(
                title="Higher is more throughput; further left is a shorter time per token",
                x=x,
                y=y,
                series=tuple(Series(label=name, colour=place, marks=_marks(own[name])) for place, name in enumerate(names)),
                lines=tuple(lines),
                share=1.0,
            ),
        ),
        legend=tuple((name, place) for place, name in enumerate(names)),
        footer=f"gpuwise predict. Vertical lines: {ranges}. Data from {answer.data_date}.",
    )


def _path(points: list[LanguagePrediction]) -> tuple[tuple[float, float], ...]:
    return tuple((point.generation.time_per_token_s, point.generation.tokens_per_s) for point in points)


def _marks(points: list[LanguagePrediction]) -> tuple[Mark, ...]:
    every = -(-len(points) // _MOST_LABELS)
    return tuple(_mark(point, labelled=place % every == 0) for place, point in enumerate(points))


def _mark(point: LanguagePrediction, *, labelled: bool) -> Mark:
    told = point.generation
    fits = "" if point.fits else ", does not fit"
    wait = f"{format_si(told.time_per_token_s, 's')} per token, first token after {format_si(told.time_to_first_token_s, 's')}"
    return Mark(
        x=told.time_per_token_s,
        y=told.tokens_per_s,
        low=told.tokens_per_s_low,
        high=told.tokens_per_s_high,
        label=f"{told.users:,}" if labelled else "",
        tip=f"{point.gpu.name}, {told.users:,} users: {told.tokens_per_s:,.4g} tokens/s, {wait}{fits}",
    )
