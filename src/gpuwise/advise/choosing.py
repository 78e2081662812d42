"""Which option to recommend: the best within the limits, and the few others worth showing; and what would change that.

With a budget: the fastest that it buys, or a clearly cheaper one that is nearly as fast. Without one: the lowest cost per run.
One GPU is preferred to several unless those are clearly faster, since several need code that uses them all; without a budget they
must be clearly cheaper per run, and their software must use them unasked, as engines that generate text do. What the user has is
kept unless something is clearly faster. Renting is recommended where nothing can be bought, or, without a budget, where a run
costs less than half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuwise.advise.candidates import Candidate, TaskRun, Terms, owned
from gpuwise.money.types import HOURS_PER_YEAR

__all__ = [
    "CLEARLY_CHEAPER",
    "MOST_ROWS",
    "NEARLY",
    "RENT_BELOW",
    "WORTH_A_CHANGE",
    "Selection",
    "UserLimits",
    "best_bought",
    "best_rented",
    "even_hours_per_week",
    "pareto",
    "select",
    "shortfall",
    "worth_usd",
]

MOST_ROWS = 7  # options that a person can compare at a glance
NEARLY = 0.93  # of the fastest speed: the difference is hardly noticed
CLEARLY_CHEAPER = 0.85  # of its price: the saving is worth that difference
WORTH_A_CHANGE = 1.3  # times as fast as the present GPU, or as one GPU alone: less is not worth the trouble
RENT_BELOW = 0.5  # of the cost per run when bought: a cloud also means copying data and waiting for machines


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLimits:
    """Limits of the user; None is no limit. A budget covers purchases, or all the rent over the horizon."""

    budget_usd: float | None = None
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What to recommend (None if nothing is within the limits), and what else to show, best first."""

    best: Candidate | None
    bought: Candidate | None
    rented: Candidate | None
    kept: Candidate | None
    shown: tuple[Candidate, ...]
    front: tuple[Candidate, ...]


def shortfall(option: Candidate, limits: UserLimits) -> str:
    """The limit that an option exceeds, in a word; empty if none."""
    if not option.run.fits:
        return "memory"
    if limits.deadline_s is not None and option.run.seconds > limits.deadline_s:
        return "deadline"
    if option.upfront_usd is None:
        return "price" if limits.budget_usd is not None else ""
    spent = option.total_usd if option.kind == "rent" else option.upfront_usd
    if limits.budget_usd is not None and spent is not None and spent > limits.budget_usd:
        return "budget"
    return ""


def select(options: Sequence[Candidate], limits: UserLimits) -> Selection:
    """What to recommend of these, and what else to show."""
    able = [option for option in options if not shortfall(option, limits)]
    bought = best_bought(able, limits)
    rented = best_rented(able)
    owned = [option for option in options if option.kind == "keep"]
    kept = min(owned, key=lambda option: (not option.run.fits, option.run.seconds), default=None)
    best = _best(bought, rented, kept if kept in able else None, limits)
    front = pareto([option for option in able if option.kind != "rent" or option is rented or bought is None])
    return Selection(
        best=best, bought=bought, rented=rented, kept=kept, shown=_shown(best, rented, kept, front, able), front=front
    )


def best_bought(able: Sequence[Candidate], limits: UserLimits) -> Candidate | None:
    """Of what can be bought: with a budget the fastest, or one nearly as fast and clearly cheaper; else the cheapest per run."""
    bought = [option for option in able if option.kind.startswith("buy")]
    single = _prefer([option for option in bought if option.gpu_count == 1], limits)
    several = _prefer([option for option in bought if option.gpu_count > 1], limits)
    if single is None or several is None:
        return single or several
    if limits.budget_usd is None:
        dearer = _usd_per_run(single) >= WORTH_A_CHANGE * _usd_per_run(several)
        return several if dearer and all(pace.adds_up for pace in several.run.paces) else single
    return several if single.run.seconds >= WORTH_A_CHANGE * several.run.seconds else single


def _prefer(bought: Sequence[Candidate], limits: UserLimits) -> Candidate | None:
    if not bought:
        return None
    if limits.budget_usd is None:
        return min(bought, key=lambda option: (_usd_per_run(option), option.run.seconds))
    fastest = min(bought, key=lambda option: (option.run.seconds, _upfront(option)))
    near = [option for option in bought if fastest.run.seconds >= NEARLY * option.run.seconds]
    cheaper = [option for option in near if _upfront(option) <= CLEARLY_CHEAPER * _upfront(fastest)]
    return min(cheaper, key=_upfront) if cheaper else fastest


def best_rented(able: Sequence[Candidate]) -> Candidate | None:
    """The rented GPU with the lowest cost per run."""
    return min((option for option in able if option.kind == "rent"), key=_usd_per_run, default=None)


def _best(bought: Candidate | None, rented: Candidate | None, kept: Candidate | None, limits: UserLimits) -> Candidate | None:
    if kept is not None:
        faster = [option for option in (bought, rented) if option and kept.run.seconds >= WORTH_A_CHANGE * option.run.seconds]
        bought, rented = (option if option in faster else None for option in (bought, rented))
    if bought and rented and kept is None and limits.budget_usd is None:
        return rented if _usd_per_run(rented) < RENT_BELOW * _usd_per_run(bought) else bought
    return bought or kept or rented


def pareto(options: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Options that no other beats in both time per run and total cost, fastest first."""
    found: list[Candidate] = []
    for option in sorted(options, key=lambda option: (option.run.seconds, _total(option))):
        if not found or _total(option) < _total(found[-1]):
            found.append(option)
    return tuple(found)


def _shown(
    best: Candidate | None,
    rented: Candidate | None,
    kept: Candidate | None,
    front: Sequence[Candidate],
    able: Sequence[Candidate],
) -> tuple[Candidate, ...]:
    """At most seven: the best, a few spread along the front, the user's own GPU and the cheapest rent. Options that another beats
    in both time and cost are not shown, except those without a price, of which that is unknown."""
    ends = [option for option in (kept, rented) if option is not None and option is not best]
    room = MOST_ROWS - len(ends) - (best is not None)
    rest = [option for option in front if option is not best and option not in ends]
    chosen = _spread(rest, room)
    if len(chosen) < room:
        unpriced = [option for option in able if option.total_usd is None]
        others = [option for option in unpriced if option not in (*chosen, *ends, *rest, best)]
        others.sort(key=lambda option: option.run.seconds)
        chosen += others[: room - len(chosen)]
    return tuple([best] if best else []) + tuple(chosen) + tuple(ends)


def _spread(options: Sequence[Candidate], count: int) -> list[Candidate]:
    """This many of them, evenly along the list, its ends among them."""
    if len(options) <= count or count < 2:
        return list(options[: max(0, count)])
    places = {round(place * (len(options) - 1) / (count - 1)) for place in range(count)}
    return [options[place] for place in sorted(places)]


def _usd_per_run(option: Candidate) -> float:
    return option.usd_per_run if option.usd_per_run is not None else float("inf")


def _upfront(option: Candidate) -> float:
    return option.upfront_usd if option.upfront_usd is not None else float("inf")


def _total(option: Candidate) -> float:
    return option.total_usd if option.total_usd is not None else float("inf")


# ---------------------------------------------------------------- thresholds that would change the answer

_WEEKS_PER_YEAR = HOURS_PER_YEAR / 168.0


def worth_usd(run: TaskRun, terms: Terms, against: Candidate) -> float | None:
    """The price of one of these GPUs at which its cost per run equals that of the other option; None where it never pays.

    runs x cost per run = price + machine + electricity, solved for the price.
    """
    if against.usd_per_run is None:
        return None
    free = owned(run, terms, None, kind="keep")  # nothing paid for card and machine
    price = (free.runs * against.usd_per_run - (free.total_usd or 0.0) - terms.machine_usd) / run.gpu_count
    return price if price > 0 else None


def even_hours_per_week(bought: Candidate, rented: Candidate, terms: Terms) -> float | None:
    """Hours of use per week at which owning and renting cost the same for the same work; None where owning is never cheaper.

    rent per run = upfront / runs + electricity per run, solved for the runs.
    """
    if rented.usd_per_run is None or bought.total_usd is None or bought.upfront_usd is None or not bought.runs:
        return None
    once = bought.total_usd - bought.running_usd
    running = bought.running_usd / bought.runs
    if rented.usd_per_run <= running:
        return None
    runs = once / (rented.usd_per_run - running)
    hours = runs * bought.run.seconds / 3600 / terms.years / _WEEKS_PER_YEAR
    return hours if hours <= 168.0 else None
