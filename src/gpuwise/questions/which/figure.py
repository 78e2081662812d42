"""The charts for `which`: time against cost with the options that no other beats, runs for the money, and plain speed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpuwise.advise.candidates import Candidate, TaskRun
from gpuwise.advise.choosing import pareto
from gpuwise.core.errors import BadValue
from gpuwise.core.text import plural
from gpuwise.core.units import format_si
from gpuwise.questions.which.language_paces import format_rate
from gpuwise.questions.which.options import check_chart
from gpuwise.questions.which.types import WhichAnswer
from gpuwise.render.chart import Axis, Bar, Bars, Figure, Line, Mark, Plot, Segment, Series

__all__ = ["choices_figure"]

_KINDS = ("buy new", "buy used", "rent", "keep")
_MOST_BARS = 30
_APART = 0.22  # on a log scale: names nearer than that would lie over each other


def choices_figure(answer: WhichAnswer, chart: str = "cost") -> Figure:
    """One chart of the options considered."""
    check_chart(chart)
    panel = _cost(answer) if chart == "cost" else _value(answer) if chart == "value" else _speed(answer)
    years, hours = answer.query.terms.years, answer.query.terms.utilization * 168
    use = f"{plural(f'{hours:.0f}', 'hour')} a week for {plural(f'{years:g}', 'year')}"
    subtitle = f"{answer.query.title}; {use}" if chart != "speed" else answer.query.title
    titles = {"cost": "Time and cost", "value": "Runs per dollar", "speed": "Speed"}
    return Figure(
        title=f"{titles[chart]}: {answer.best.name if answer.best else 'the best at each budget'}",
        subtitle=subtitle,
        panels=(panel,),
        legend=tuple((kind, place) for place, kind in enumerate(_KINDS) if any(one.kind == kind for one in answer.every))
        if chart == "cost"
        else (),
        footer="gpuwise which. Purchase prices are your own, published, estimated or launch prices. "
        f"Rental prices are from {answer.data_date}.",
    )


def _alone(answer: WhichAnswer) -> list[Candidate]:
    """What fits and has a price; several of one card only where they are shown."""
    shown = {option.key for option in answer.options}
    return [
        option
        for option in answer.every
        if option.run.fits and option.total_usd is not None and (option.gpu_count == 1 or option.key in shown)
    ]


def _cost(answer: WhichAnswer) -> Plot:
    options, money = _alone(answer), answer.query.book.currency
    if not options:
        raise BadValue(
            "there is nothing to draw: no option that fits has a known price",
            hint="leave out `--figure`, or add a price with `--price`",
        )
    front = pareto(options)
    named = _keys_to_name([*answer.options, *front])
    series = tuple(
        Series(label=kind, colour=place, marks=tuple(_mark(option, answer, named) for option in options if option.kind == kind))
        for place, kind in enumerate(_KINDS)
    )
    costs, times = [_total(option, answer) for option in options], [option.run.seconds for option in options]
    steps = [(_total(option, answer), option.run.seconds) for option in sorted(front, key=lambda option: option.total_usd or 0.0)]
    return Plot(
        title="Lower and further left is better; the line connects the options that no other option beats",
        x=Axis(title=f"total cost in {money.code}", low=min(costs) / 1.5, high=max(costs) * 1.5, log=True),
        y=Axis(title="time per run", low=min(times) / 1.5, high=max(times) * 1.5, unit="s", log=True),
        series=tuple(one for one in series if one.marks),
        lines=(Line(points=tuple(steps)),) if len(steps) > 1 else (),
        share=1.0,
    )


def _total(option: Candidate, answer: WhichAnswer) -> float:
    """In the user's currency."""
    return (option.total_usd or 0.0) / answer.query.book.currency.usd_per_unit


def _keys_to_name(options: Sequence[Candidate]) -> set[str]:
    """Options whose names have room, the first ones before the later."""
    kept: list[Candidate] = []
    for option in options:
        if option.run.fits and option.total_usd and all(_far(option, other) for other in kept):
            kept.append(option)
    return {option.key for option in kept}


def _far(one: Candidate, other: Candidate) -> bool:
    money = abs(math.log((one.total_usd or 1.0) / (other.total_usd or 1.0)))
    return math.hypot(money / 3, math.log(one.run.seconds / other.run.seconds)) > _APART


def _mark(option: Candidate, answer: WhichAnswer, named: set[str]) -> Mark:
    run, show = option.run, answer.query.book.currency.show
    return Mark(
        x=_total(option, answer),
        y=run.seconds,
        low=run.seconds * run.low,
        high=run.seconds * run.high,
        weight=2.0 if option is answer.best else 1.0,
        label=option.name if option.key in named else "",
        tip=f"{option.kind} {option.name}: {format_si(run.seconds, 's')} per run, {show(option.total_usd or 0.0)}",
    )


def _value(answer: WhichAnswer) -> Bars:
    options = sorted((one for one in _alone(answer) if one.usd_per_run), key=lambda option: option.usd_per_run or 0.0)[
        :_MOST_BARS
    ]
    show = answer.query.book.currency.show
    best = max((1 / (option.usd_per_run or 1.0) for option in options), default=1.0)
    bars = tuple(
        Bar(
            label=f"{option.name} ({option.kind})",
            segments=(Segment(value=1 / (option.usd_per_run or 1.0) / best, tip=f"{show(option.usd_per_run or 0.0)} per run"),),
            note=f"{show(option.usd_per_run or 0.0)} per run",
        )
        for option in options
    )
    axis = Axis(title="runs for the money, best = 1", low=0.0, high=1.02)
    return Bars(
        title="Longer is better; includes the price, machine and electricity, or the rent", axis=axis, bars=bars, share=1.0
    )


def _speed(answer: WhichAnswer) -> Bars:
    runs = {option.gpu.name: option.run for option in answer.every if option.gpu_count == 1}
    ranked = sorted(runs.values(), key=lambda run: run.seconds)[:_MOST_BARS]
    best = ranked[0].seconds
    bars = tuple(_speed_bar(run, best) for run in ranked)
    axis = Axis(title="speed, fastest = 1", low=0.0, high=1.02)
    return Bars(title="Longer is better; one GPU, all jobs", axis=axis, bars=bars, share=1.0)


def _speed_bar(run: TaskRun, best: float) -> Bar:
    speed = f"{format_rate(run.samples_per_s)} tokens/s" if run.paces[0].adds_up else f"{format_si(run.seconds, 's')} per run"
    note = speed if run.fits else "does not fit"
    segment = Segment(value=best / run.seconds, tip=f"{run.gpu.name}: {note}")
    return Bar(label=run.gpu.name, segments=(segment,), note=note, faint=not run.fits)
