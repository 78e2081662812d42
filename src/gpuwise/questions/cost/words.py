"""The words of `cost`: its verdict, and how it writes shares and days."""

from __future__ import annotations

from gpuwise.core.text import plural
from gpuwise.money.costs import WEEK_HOURS, in_server, is_cheaper_rented, rent_below
from gpuwise.questions.cost.types import CostAnswer

__all__ = ["better", "breaks_even", "days", "is_tie", "resale_turn", "share", "undecided", "unpaid", "verdict", "worth", "years"]


_MANY_DAYS = 1460  # four years: longer than that is said in years
_TIE = 0.03  # of the cost of owning: prices are not known better
_FAR = 2.0  # times the assumed resale value: beyond that, or below its inverse, another one is not likely
_NEAR = 0.1  # of the cost of owning: less than that does not decide where clouds differ by more


def verdict(answer: CostAnswer) -> str:
    """The recommendation in one sentence."""
    here, show = answer.here, answer.query.book.currency.show
    horizon = years(answer.query.years)
    if here is None:
        return _one_way(answer, horizon)
    gap, even = here.rent_usd - here.own_usd, _turns_at(answer)
    if even is not None and abs(gap) <= _NEAR * here.own_usd:
        hours = f"{plural(f'{answer.query.utilization * WEEK_HOURS:.0f}', 'hour')} a week"
        sums = f"{show(here.own_usd)} and {show(here.rent_usd)} over {horizon} at {hours}"
        return (
            f"Owning and renting cost about the same ({sums}). Rent if a cloud charges less than {_asked(answer, even)}; "
            "otherwise, buy."
        )
    if is_tie(here.own_usd, here.rent_usd):
        return f"Owning and renting cost about the same over {horizon} ({show(here.own_usd)} and {show(here.rent_usd)})."
    pays = answer.break_even_utilization
    if gap >= 0:
        resale = ", including the resale value," if answer.query.resale_usd else ""
        rents = f", but renting is cheaper below {_asked(answer, even)}" if even is not None else ""
        when = breaks_even(here.days_with_resale)
        return f"Owning is {show(gap)} cheaper than renting over {horizon}{resale} and {when}{rents}."
    if not is_cheaper_rented(here.own_usd, here.rent_usd, answer.speed):
        return f"Renting saves only {show(-gap)} ({-gap / here.own_usd:.0%}) over {horizon}."
    more = (
        f"; owning is cheaper above {share(pays)} utilisation ({pays * WEEK_HOURS:.0f} h per week)"
        if pays is not None
        else "; owning is never cheaper"
    )
    rents = (
        f"{' or if' if pays is not None else ' unless'} renting costs more than {_asked(answer, even)}"
        if even is not None
        else ""
    )
    return f"Renting is {show(-gap)} cheaper over {horizon}{more}{rents}."


def better(answer: CostAnswer) -> str:
    """`own` or `rent`; `either` if they cost about the same or renting saves too little for its effort; "" if one is unknown.

    It says the same as the verdict, for a headline.
    """
    here = answer.here
    if here is None:
        return ""
    if _is_near(answer):
        return "either"
    if here.rent_usd > here.own_usd:
        return "own"
    return "rent" if is_cheaper_rented(here.own_usd, here.rent_usd, answer.speed) else "either"


def worth(answer: CostAnswer) -> str:
    """Return the rental price below which renting is worth its effort, if it is cheaper by too little."""
    if undecided(answer) != "effort":
        return ""
    below = rent_below(answer.speed)
    much, enough = _turns_at(answer, below), f"saves at least {1 - below:.0%}"
    if much is None:
        return f" Renting is worth the extra effort only if it {enough}."
    return f" Renting is worth the extra effort at less than {_asked(answer, much)}, because it then {enough}."


def undecided(answer: CostAnswer) -> str:
    """Why `better` is `either`: "close" if both ways cost about the same, "effort" if renting saves too little; else ""."""
    if better(answer) != "either":
        return ""
    return "close" if _is_near(answer) else "effort"


def _is_near(answer: CostAnswer) -> bool:
    """Whether both ways cost about the same."""
    here, near = answer.here, _NEAR if _turns_at(answer) is not None else _TIE
    return here is not None and abs(here.rent_usd - here.own_usd) <= near * here.own_usd


def resale_turn(answer: CostAnswer) -> str:
    """Return the resale value at which the other way becomes cheaper, if the assumed one is near it."""
    here, query, owned = answer.here, answer.query, answer.ownership
    if here is None or owned is None or query.resale_is_given or _is_near(answer):
        return ""
    turns = owned.resale_usd - (here.rent_usd - here.own_usd)
    if not owned.resale_usd / _FAR <= turns <= min(_FAR * owned.resale_usd, owned.gpu_usd):
        return ""
    way, than = ("Renting", "less") if here.rent_usd > here.own_usd else ("Owning", "more")
    what = "each GPU" if query.gpu_count > 1 else "the GPU"
    usd, taken = (query.book.currency.show(value / query.gpu_count) for value in (turns, owned.resale_usd))
    return f" {way} is cheaper if {what} resells for {than} than {usd} ({taken} is assumed)."


def unpaid(answer: CostAnswer) -> str:
    """Return what the comparison leaves out if a server is bought: costs that only labs know, and discounts for commitments."""
    if answer.here is None or not in_server(answer.query.gpu):
        return ""
    committed = any(rental.way == "commitment" for rental in answer.rentals)
    less = "" if committed else "; clouds charge less for committed use (try `--commit 0.4`)"
    return f" Owning also requires rack space, a network and staff, which are not included{less}."


def _turns_at(answer: CostAnswer, share_of_owning: float = 1.0) -> float | None:
    """Return the hourly rent of one GPU at which renting costs this share of owning, if the rent is the median of several
    clouds and some of them charge less than that and others more.
    """
    here, market, asked = answer.here, answer.market, answer.query.rent
    if here is None or market is None or asked is None or not asked.is_median or answer.query.use_spot:
        return None
    usd = asked.usd_per_gpu_hour * share_of_owning * here.own_usd / here.rent_usd
    return usd if market.low_usd_per_gpu_hour < usd < market.high_usd_per_gpu_hour else None


def _clouds_ask(answer: CostAnswer) -> str:
    """Return the range of rental prices that clouds charge for the GPU."""
    market, show = answer.market, answer.query.book.currency.show
    return f"{show(market.low_usd_per_gpu_hour)} to {show(market.high_usd_per_gpu_hour)}" if market is not None else ""


def _hour(answer: CostAnswer, usd: float) -> str:
    each = " for each GPU" if answer.query.gpu_count > 1 else ""
    return f"{answer.query.book.currency.show(usd)} an hour{each}"


def _asked(answer: CostAnswer, usd: float) -> str:
    return f"{_hour(answer, usd)} (clouds charge {_clouds_ask(answer)})"


def is_tie(own_usd: float, rent_usd: float) -> bool:
    """Whether both cost about the same."""
    return abs(rent_usd - own_usd) <= _TIE * own_usd


def _one_way(answer: CostAnswer, horizon: str) -> str:
    show, owned, rental = answer.query.book.currency.show, answer.ownership, answer.chosen
    if owned is None:
        return f"Renting costs {show(rental.total_usd if rental else 0.0)} over {horizon}; no purchase price is known."
    missing = "no rental price is known" if rental is None else "renting costs nothing if the GPU is not used"
    return f"Owning costs {show(owned.total_usd)} over {horizon}; {missing}."


def years(value: float) -> str:
    """A horizon: 1 year, 3 years."""
    return plural(f"{value:g}", "year")


def share(value: float) -> str:
    """A share as a percentage: 15%, 0.5%."""
    return f"{100 * value:.3g}%"


def days(value: float | None) -> str:
    """Days, or years where they are many."""
    if value is None:
        return "never"
    if value < _MANY_DAYS:
        return plural(f"{value:,.0f}", "day")
    return f"{value / 365:.1f} years" if value < 3650 else f"{value / 365:,.0f} years"


def breaks_even(value: float | None) -> str:
    """When owning has paid for itself.

    >>> breaks_even(240.0), breaks_even(None)
    ('breaks even after 240 days', 'never breaks even')
    """
    return "never breaks even" if value is None else f"breaks even after {days(value)}"
