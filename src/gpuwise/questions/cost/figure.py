"""The chart for `cost`: the amount paid over time, and how the break-even point moves with use."""

from __future__ import annotations

from gpuwise.core.errors import BadValue
from gpuwise.core.text import plural
from gpuwise.money.costs import Ownership, break_even_days
from gpuwise.questions.cost.types import CostAnswer
from gpuwise.questions.cost.words import days, share
from gpuwise.render.chart import Axis, Figure, Line, Mark, Plot, Series

__all__ = ["cost_figure"]

_OWN, _RENT, _MARKET = 0, 1, 2
_POINTS = 60
_LEAST_SHARE = 0.02


def cost_figure(answer: CostAnswer) -> Figure:
    """Money paid over time, and days to the break-even by utilisation."""
    query, owned = answer.query, answer.ownership
    if owned is None or answer.here is None:
        raise BadValue(
            "a figure needs a purchase price, a rental price and a utilisation above 0",
            hint="set them with `--price 700` and `--cloud-price 0.4`",
        )
    count = f"{query.gpu_count} × " if query.gpu_count > 1 else ""
    legend = [("own", _OWN), (f"rent at {query.book.currency.show(_hourly(answer))} per hour", _RENT)]
    market = _market(answer)
    if market is not None:
        legend.append((f"rent at the median cloud price, {query.book.currency.show(market)}", _MARKET))
    use = f"{share(query.utilization)} of the time, {owned.watts:,.0f} W, {query.region.name}"
    return Figure(
        title=f"{count}{query.gpu.name}: own or rent?",
        subtitle=f"{answer.verdict} In use {use}.",
        panels=(_paid(answer, owned), _crossings(answer, owned)),
        legend=tuple(legend),
        footer=f"gpuwise cost. Includes electricity. The lines do not include resale. Purchase price from {_price(answer)}; "
        f"rental prices from {answer.data_date}.",
    )


def _price(answer: CostAnswer) -> str:
    price = answer.query.price
    return "" if price is None else f"{price.dated:%Y-%m} ({price.kind})"


def _hourly(answer: CostAnswer) -> float:
    """The rent per GPU and hour in the chosen way."""
    return 0.0 if answer.chosen is None else answer.chosen.usd_per_gpu_hour


def _market(answer: CostAnswer) -> float | None:
    """The median of clouds, where it is not what is drawn already."""
    found = answer.market
    return None if found is None or abs(found.usd_per_gpu_hour / _hourly(answer) - 1) < 0.01 else found.usd_per_gpu_hour


def _paid(answer: CostAnswer, owned: Ownership) -> Plot:
    """Both sums grow evenly with the days; where the lines cross, owning has paid for itself."""
    query, unit = answer.query, answer.query.book.currency
    span = 365.0 * query.years
    ends = [(owned.upfront_usd, owned.upfront_usd + owned.electricity_usd, _OWN)]
    for usd, colour in ((_hourly(answer), _RENT), (_market(answer), _MARKET)):
        if usd is not None:
            ends.append((0.0, query.gpu_count * usd / answer.speed * owned.hours, colour))
    lines = tuple(
        Line(points=((0.0, first / unit.usd_per_unit), (span, last / unit.usd_per_unit)), colour=colour)
        for first, last, colour in ends
    )
    at = answer.here.days if answer.here else None
    marks: tuple[Mark, ...] = ()
    if at is not None and at <= span:
        paid = (owned.upfront_usd + owned.electricity_usd * at / span) / unit.usd_per_unit
        marks = (Mark(x=at, y=paid, tip=f"break-even after {days(at)}"),)
    return Plot(
        title=f"Total paid: break-even after {days(at)}" if marks else "Total paid",
        x=Axis(title="days", low=0.0, high=span),
        y=Axis(title=unit.code, low=0.0, high=1.05 * max(y for line in lines for _, y in line.points)),
        series=(Series(label="break-even", colour=_RENT, marks=marks),),
        lines=lines,
    )


def _crossings(answer: CostAnswer, owned: Ownership) -> Plot:
    """Days to the break-even over utilisation; both axes logarithmic, so that the lines are straight."""
    query = answer.query
    least = min(_LEAST_SHARE, query.utilization / 1.5)
    shares = [least ** (1 - place / _POINTS) for place in range(_POINTS + 1)]
    lines, every = [], [row.days for row in answer.break_evens if row.days is not None]
    for usd, colour in ((_hourly(answer), _RENT), (_market(answer), _MARKET)):
        if usd is None:
            continue
        hourly = query.gpu_count * usd / answer.speed
        found = [(one, break_even_days(owned.upfront_usd, hourly, one, owned.electricity_usd_per_hour)) for one in shares]
        points = tuple((one, at) for one, at in found if at is not None)
        if points:
            lines.append(Line(points=points, colour=colour))
            every += [at for _, at in points]
    marks = tuple(
        Mark(
            x=row.utilization,
            y=row.days,
            label=days(row.days) if row.utilization == query.utilization else "",
            weight=1.6 if row.utilization == query.utilization else 1.0,
            tip=f"{share(row.utilization)}: {days(row.days)}",
        )
        for row in answer.break_evens
        if row.days is not None
    )
    horizon = 365.0 * query.years
    every = every or [horizon]
    return Plot(
        title="Days until owning is cheaper, by use" if lines else "Owning is never cheaper",
        x=Axis(title="fraction of the time in use", low=least, high=1.0, unit="%", log=True),
        y=Axis(title="days", low=min([*every, horizon]) / 1.4, high=max([*every, horizon]) * 1.4, log=True),
        series=(Series(label="break-even", colour=_RENT, marks=marks),),
        lines=(*lines, Line(points=((least, horizon), (1.0, horizon)), label=plural(f"{query.years:g}", "year"), dashed=True)),
    )
