"""The words of `cost`: its verdict, and how it writes shares and days."""

from __future__ import annotations

from gpuwise.money.costs import WEEK_HOURS
from gpuwise.questions.cost.types import CostAnswer

__all__ = ["days", "share", "verdict", "years"]


def verdict(answer: CostAnswer) -> str:
    """The recommendation in one sentence."""
    here, show = answer.here, answer.query.book.currency.show
    horizon = years(answer.query.years)
    if here is None:
        return _one_way(answer, horizon)
    gap = here.rent_usd - here.own_usd
    pays = answer.break_even_utilization
    if gap >= 0:
        soon = here.days is not None and here.days <= 365 * answer.query.years
        when = f" after {days(here.days)}" if soon else " once it is resold"
        return f"Own: cheaper than renting{when}, by {show(gap)} over {horizon}."
    more = (
        f"; owning is cheaper from {share(pays)} ({pays * WEEK_HOURS:.0f} h per week)"
        if pays is not None
        else "; owning is never cheaper"
    )
    return f"Rent: cheaper than owning by {show(-gap)} over {horizon}{more}."


def _one_way(answer: CostAnswer, horizon: str) -> str:
    show, owned, rental = answer.query.book.currency.show, answer.ownership, answer.chosen
    if owned is None:
        return f"Rent: {show(rental.total_usd if rental else 0.0)} over {horizon}; no purchase price is known."
    missing = "no rental price is known" if rental is None else "without use there is nothing to rent"
    return f"Own: {show(owned.total_usd)} over {horizon}; {missing}."


def years(value: float) -> str:
    """A horizon: 1 year, 3 years."""
    return f"{value:g} year" + ("" if value == 1 else "s")


def share(value: float) -> str:
    """A share as a percentage: 15 %, 0.5 %."""
    return f"{100 * value:.3g} %"


def days(value: float | None) -> str:
    """Days, or years where they are many."""
    if value is None:
        return "never"
    return f"{value:,.0f} days" if value < 3650 else f"{value / 365:,.0f} years"
