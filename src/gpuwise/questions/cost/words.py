"""The words of `cost`: its verdict, and how it writes shares and days."""

from __future__ import annotations

from gpuwise.money.costs import RENT_BELOW, WEEK_HOURS, is_cheaper_rented
from gpuwise.questions.cost.types import CostAnswer

__all__ = ["breaks_even", "days", "is_tie", "share", "verdict", "years"]


_MANY_DAYS = 1460  # four years: longer than that is said in years
_TIE = 0.03  # of the cost of owning: prices are not known better


def verdict(answer: CostAnswer) -> str:
    """The recommendation in one sentence."""
    here, show = answer.here, answer.query.book.currency.show
    horizon = years(answer.query.years)
    if here is None:
        return _one_way(answer, horizon)
    gap = here.rent_usd - here.own_usd
    if is_tie(here.own_usd, here.rent_usd):
        both = f"Owning and renting cost about the same over {horizon} ({show(here.own_usd)} and {show(here.rent_usd)})"
        return f"{both}{_rents(answer)}."
    pays = answer.break_even_utilization
    if gap >= 0:
        resale = ", counting the resale value," if answer.query.resale_usd else ""
        return f"Owning is {show(gap)} cheaper than renting over {horizon}{resale} and {breaks_even(here.days_with_resale)}."
    if not is_cheaper_rented(here.own_usd, here.rent_usd):
        why = f"uploading data and waiting for machines is worth it only for {1 - RENT_BELOW:.0%}"
        return f"Owning is recommended: renting saves {show(-gap)} ({-gap / here.own_usd:.0%}) over {horizon}, but {why}."
    more = (
        f"; owning is cheaper above {share(pays)} use ({pays * WEEK_HOURS:.0f} h per week)"
        if pays is not None
        else "; owning is never cheaper"
    )
    return f"Renting is {show(-gap)} cheaper over {horizon}{more}."


def is_tie(own_usd: float, rent_usd: float) -> bool:
    """Whether both cost about the same."""
    return abs(rent_usd - own_usd) <= _TIE * own_usd


def _rents(answer: CostAnswer) -> str:
    """How far rents differ, where the price is their median."""
    market, show = answer.market, answer.query.book.currency.show
    if market is None or len(market.clouds) < 2 or answer.query.rent is None or answer.query.rent.offer is not None:
        return ""
    span = f"{show(market.low_usd_per_gpu_hour)} to {show(market.high_usd_per_gpu_hour)}"
    return f", but rents range from {span} an hour"


def _one_way(answer: CostAnswer, horizon: str) -> str:
    show, owned, rental = answer.query.book.currency.show, answer.ownership, answer.chosen
    if owned is None:
        return f"Renting costs {show(rental.total_usd if rental else 0.0)} over {horizon}; no purchase price is known."
    missing = "no rental price is known" if rental is None else "renting costs nothing if the GPU is not used"
    return f"Owning costs {show(owned.total_usd)} over {horizon}; {missing}."


def years(value: float) -> str:
    """A horizon: 1 year, 3 years."""
    return f"{value:g} year" + ("" if value == 1 else "s")


def share(value: float) -> str:
    """A share as a percentage: 15%, 0.5%."""
    return f"{100 * value:.3g}%"


def days(value: float | None) -> str:
    """Days, or years where they are many."""
    if value is None:
        return "never"
    if value < _MANY_DAYS:
        return f"{value:,.0f} days"
    return f"{value / 365:.1f} years" if value < 3650 else f"{value / 365:,.0f} years"


def breaks_even(value: float | None) -> str:
    """When owning has paid for itself.

    >>> breaks_even(240.0), breaks_even(None)
    ('breaks even after 240 days', 'never breaks even')
    """
    return "never breaks even" if value is None else f"breaks even after {days(value)}"
