"""The prices and the hours of use at which another option would be recommended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuwise.advise.candidates import Candidate, Terms
from gpuwise.advise.choosing import NEARLY, WORTH_A_CHANGE, UserLimits, recommend, shortfall, usd_per_run
from gpuwise.money.types import HOURS_PER_YEAR

__all__ = ["Flip", "at_price", "even_hours_per_week", "price_flips"]

_WEEK_HOURS = 168.0
_WEEKS_PER_YEAR = HOURS_PER_YEAR / _WEEK_HOURS
_HALVINGS = 16  # share of a price range: the threshold is then accurate to a dollar, so one that equals the budget reads like it


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """The price of one of these GPUs at which the recommendation changes, within the range of its price."""

    option: Candidate
    usd: float
    then: Candidate


def at_price(option: Candidate, usd: float, terms: Terms) -> Candidate:
    """Return the same option if one of its GPUs costs this much."""
    if option.price is None or option.upfront_usd is None or option.total_usd is None:
        return option
    price, more = replace(option.price, usd=usd), (usd - option.price.usd) * option.bought_count
    resold = terms.resale_usd(option.gpu, price) * option.bought_count - option.resale_usd
    return replace(
        option,
        price=price,
        upfront_usd=option.upfront_usd + more,
        total_usd=option.total_usd + more - resold,
        resale_usd=option.resale_usd + resold,
    )


def price_flips(options: Sequence[Candidate], limits: UserLimits, terms: Terms, best: Candidate) -> list[Flip]:
    """Return where the recommendation changes within the range of a single price: that of the recommended option, if it were
    higher, then those of others, if they were lower.
    """
    timely = replace(limits, budget_usd=None)
    within = [not shortfall(option, limits) for option in options]
    found = [_flip(options, within, limits, terms, best, "high")]
    for option in options:
        if option is not best and not shortfall(option, timely) and _could_win(option, limits, terms, best):
            found.append(_flip(options, within, limits, terms, option, "low"))
    return [flip for flip in found if flip is not None]


def _could_win(option: Candidate, limits: UserLimits, terms: Terms, best: Candidate) -> bool:
    """A quick test whether it could be recommended at the low end of its price."""
    if option.price is None or not option.kind.startswith("buy"):
        return False
    if limits.budget_usd is not None:
        return option.run.seconds <= best.run.seconds / NEARLY
    return usd_per_run(at_price(option, option.price.low_usd, terms)) <= WORTH_A_CHANGE * usd_per_run(best)


def _flip(
    options: Sequence[Candidate], within: Sequence[bool], limits: UserLimits, terms: Terms, moved: Candidate, end: str
) -> Flip | None:
    """Return the nearest price of the GPU in `moved` that changes the recommendation, on the way to one end of its range. A
    GPU has one price, however many are bought. `within` says which options are within the limits at their present price.
    """
    if moved.price is None or not moved.run.fits:
        return None
    name, now, last = moved.price.gpu, moved.price.usd, moved.price.high_usd if end == "high" else moved.price.low_usd
    able = [one for one, fits in zip(options, within, strict=True) if fits or (one.price is not None and one.price.gpu == name)]
    moving = [place for place, one in enumerate(able) if one.price is not None and one.price.gpu == name]

    def recommended(usd: float) -> Candidate | None:
        there = able.copy()
        for place in moving:
            there[place] = at_price(able[place], usd, terms)
        over = {place for place in moving if shortfall(there[place], limits)}
        found = recommend([one for place, one in enumerate(there) if place not in over] if over else there, limits)
        return next((one for one, other in zip(able, there, strict=True) if other is found), None)

    found = None if last == now else recommended(last)
    if found is None or (end == "low" and found is not moved) or found is (kept := recommended(now)):
        return None
    for _ in range(_HALVINGS):
        middle = (now + last) / 2
        there = recommended(middle)
        if there is kept or there is None or (end == "low" and there is not moved):
            now = middle
        else:
            last, found = middle, there
    return Flip(option=moved, usd=last, then=found)


def even_hours_per_week(bought: Candidate, rented: Candidate, terms: Terms) -> float | None:
    """Return the hours of use per week up to which renting costs less for the same work, or None if owning is never cheaper.

    rent per run = (price + machine - resale) / runs + electricity per run, solved for the runs; a slower rented GPU cannot do
    more than it does around the clock.
    """
    if rented.usd_per_run is None or bought.total_usd is None or bought.upfront_usd is None or not bought.runs:
        return None
    once = bought.total_usd - bought.running_usd
    running = bought.running_usd / bought.runs
    if rented.usd_per_run <= running:
        return None if rented.run.seconds <= bought.run.seconds else _WEEK_HOURS * bought.run.seconds / rented.run.seconds
    runs = once / (rented.usd_per_run - running)
    hours = runs * bought.run.seconds / 3600 / terms.years / _WEEKS_PER_YEAR
    most = min(1.0, bought.run.seconds / rented.run.seconds) * _WEEK_HOURS  # a slower rented GPU has no more hours than a week
    return min(hours, most) if min(hours, most) < _WEEK_HOURS else None
