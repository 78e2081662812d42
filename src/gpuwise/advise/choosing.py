"""Decides which option to recommend (the best within the limits), which few others to show, and what would change that.

With a budget, it is the fastest option the budget buys, or a clearly cheaper one that is nearly as fast. Without one, it is the
lowest cost per run. One GPU is preferred to several unless those are much faster and have no less memory each. What the user has
is kept unless something is clearly faster. `docs/concepts/choosing.md` has the whole rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gpuwise.advise.candidates import Candidate, Terms, spread
from gpuwise.core.units import GIB
from gpuwise.money.costs import is_cheaper_rented
from gpuwise.money.types import HOURS_PER_YEAR

__all__ = [
    "CLEARLY_CHEAPER",
    "MOST_ROWS",
    "NEARLY",
    "WORTH_A_CHANGE",
    "WORTH_SEVERAL",
    "Flip",
    "Selection",
    "UserLimits",
    "adds_up",
    "at_price",
    "best_bought",
    "best_rented",
    "even_hours_per_week",
    "pareto",
    "price_flips",
    "recommend",
    "roomy",
    "select",
    "shortfall",
]

MOST_ROWS = 7  # as many options as a person can compare at a glance
NEARLY = 0.90  # share of the fastest speed: the usual error of a predicted ratio, so the difference may not exist
CLEARLY_CHEAPER = 0.85  # share of its price: the saving is worth that difference
WORTH_A_CHANGE = 1.3  # times as fast as the present GPU: less is not worth the trouble
WORTH_SEVERAL = 1.5  # times as fast as one GPU alone: more cards also need power, slots and code that uses them all
_TIED = 1.02  # times as long: less than the error of a prediction, so the cheaper option is named
_IN_A_MACHINE = 8  # GPUs: more need a network and code for several machines
_ROOMY = 24 * GIB  # of each of several GPUs is enough for most jobs
_USEFUL = 4.0  # times as long as the best: slower options are not useful alternatives
_FAR_DEARER = 5.0  # times the price of the best purchase: a user who gave no budget would not spend that


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLimits:
    """The user's limits; None means no limit. A budget covers purchases, or all the rent over the horizon, whose hours of use
    must be enough for one run.
    """

    budget_usd: float | None = None
    deadline_s: float | None = None
    horizon_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What to recommend (None if nothing is within the limits), and what else to show, best first. `rented` has the lowest cost
    per run of all rented GPUs, `hired` of those that are about as fast as what is `bought`.
    """

    best: Candidate | None
    bought: Candidate | None
    rented: Candidate | None
    hired: Candidate | None
    kept: Candidate | None
    shown: tuple[Candidate, ...]
    front: tuple[Candidate, ...]


def shortfall(option: Candidate, limits: UserLimits) -> str:
    """Return the limit that an option exceeds, in a word, or an empty string."""
    if not option.run.fits:
        return "memory"
    if limits.deadline_s is not None and option.run.seconds > limits.deadline_s:
        return "deadline"
    if limits.horizon_s is not None and option.run.seconds > limits.horizon_s:
        return "horizon"
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
    owned = [option for option in options if option.kind == "keep"]
    kept = min(owned, key=lambda option: (not option.run.fits, option.run.seconds), default=None)
    own_s = kept.run.seconds if kept in able and kept is not None else math.inf
    rented = best_rented([one for one in able if one.run.seconds < own_s])  # nobody rents a GPU that is slower than their own
    best = recommend(able, limits)
    hired = best if best is not None and best.kind == "rent" else best_rented(able, as_fast_as=bought)
    bought = best if best is not None and best.kind.startswith("buy") else bought
    front = pareto([option for option in able if option.kind != "rent" or option in (rented, hired) or bought is None])
    most = math.inf if limits.budget_usd is not None or bought is None else _FAR_DEARER * _upfront(bought)
    near = [option for option in front if _upfront(option) <= most]
    rents = [option for option in dict.fromkeys((hired, rented)) if option is not None and option.run.seconds < own_s]
    return Selection(
        best=best,
        bought=bought,
        rented=rented,
        hired=hired,
        kept=kept,
        shown=_shown(best, [option for option in (kept, bought, *rents) if option is not None], near, able),
        front=front,
    )


def recommend(able: Sequence[Candidate], limits: UserLimits) -> Candidate | None:
    """What to do, of options within the limits."""
    bought = best_bought(able, limits)
    kept = min((option for option in able if option.kind == "keep"), key=lambda option: option.run.seconds, default=None)
    if kept and (bought is None or kept.run.seconds < WORTH_A_CHANGE * bought.run.seconds):
        return kept  # hardware that is already paid for costs less than any rent
    if kept and bought and limits.budget_usd is None and _costs_less(kept, bought):
        sooner = best_rented([option for option in able if option.run.seconds < kept.run.seconds])
        return sooner if sooner and is_cheaper_rented(_usd_per_run(kept), _usd_per_run(sooner)) else kept
    hired = best_rented(able, as_fast_as=bought)
    if bought is None and limits.budget_usd is not None:
        return _fastest_rented(able)
    if bought is None or hired is None or not is_cheaper_rented(_usd_per_run(bought), _usd_per_run(hired)):
        return bought or hired
    as_fast = [option for option in roomy(able) if option.run.seconds <= hired.run.seconds]
    cheapest = min(as_fast, key=_usd_per_run, default=hired)
    return cheapest if _usd_per_run(cheapest) < _usd_per_run(hired) else hired


def _costs_less(kept: Candidate, bought: Candidate) -> bool:
    """Return whether a run costs less on the user's own GPU than on one that would be bought, if its price is known. Nobody
    trains on a CPU to save electricity.
    """
    return bought.usd_per_run is not None and not kept.gpu.is_cpu and _usd_per_run(kept) < bought.usd_per_run


def best_bought(able: Sequence[Candidate], limits: UserLimits) -> Candidate | None:
    """Return the best purchase: with a budget, the fastest, or one nearly as fast and clearly cheaper; otherwise the cheapest
    per run. A card with less memory than the user has would be a step back.
    """
    bought = roomy(able)
    single = _prefer([option for option in bought if option.gpu_count == 1], limits)
    least = 0.0 if single is None else min(single.gpu.memory_bytes, _ROOMY)
    sets = [option for option in bought if option.gpu_count > 1 and (adds_up(option) or option.gpu.memory_bytes >= least)]
    several = _prefer_few(sets, limits)
    if single is None or several is None:
        return single or several
    winners = [option for option in sets if _beats(option, single)]
    if limits.budget_usd is not None and _worth_more(several, single):
        return several
    if winners:
        return _prefer(winners, limits)
    if limits.budget_usd is None:
        dearer = NEARLY * _usd_per_run(single) >= _usd_per_run(several)
        beaten = _usd_per_run(single) > _usd_per_run(several) and single.run.seconds > several.run.seconds
        return several if (dearer or beaten) and adds_up(several) else single
    return _prefer(_nearly(bought, single), limits) or single


def _prefer_few(sets: Sequence[Candidate], limits: UserLimits) -> Candidate | None:
    """The preferred set. One in several machines must be much faster than any in one machine, or as fast and clearly cheaper."""
    here, there = (_prefer([one for one in sets if (one.gpu_count > _IN_A_MACHINE) == far], limits) for far in (False, True))
    if here is None or there is None or _worth_more(there, here):
        return there or here
    cheaper = there.run.seconds <= here.run.seconds and _upfront(there) <= CLEARLY_CHEAPER * _upfront(here)
    return there if cheaper else here


def _worth_more(several: Candidate, fewer: Candidate) -> bool:
    """Return whether more GPUs are so much faster that they are worth the effort."""
    return fewer.run.seconds >= (WORTH_A_CHANGE if adds_up(several) else WORTH_SEVERAL) * several.run.seconds


def _beats(several: Candidate, single: Candidate) -> bool:
    """Return whether a set is faster and costs less in every way, with no less memory for one model."""
    faster = several.run.seconds < single.run.seconds and several.run.shared_bytes >= single.run.shared_bytes
    return faster and _upfront(several) <= _upfront(single) and _total(several) <= _total(single)


def _nearly(bought: Sequence[Candidate], single: Candidate) -> list[Candidate]:
    """Sets that no code must change for: nearly as fast as anything with no more cards, and clearly cheaper than the single."""
    return [
        option
        for option in bought
        if (option.gpu_count > 1 and adds_up(option))
        and all(one.run.seconds >= NEARLY * option.run.seconds for one in bought if one.gpu_count <= option.gpu_count)
        and _upfront(option) <= CLEARLY_CHEAPER * _upfront(single)
        and _usd_per_run(option) <= _usd_per_run(single)
    ]


def roomy(able: Sequence[Candidate]) -> list[Candidate]:
    """Return what can be bought that is faster than the user's present GPUs and has no less memory."""
    own = [option for option in able if option.kind == "keep" and not option.gpu.is_cpu]
    least = min(max((option.gpu.memory_bytes for option in own), default=0.0), _ROOMY)
    soonest = min((option.run.seconds for option in own), default=math.inf)
    bought = [one for one in able if one.kind.startswith("buy") and one.run.seconds < soonest]
    return [one for one in bought if adds_up(one) or one.gpu.memory_bytes >= least]


def adds_up(option: Candidate) -> bool:
    """Return whether its GPUs share the work and the memory of every job without code changes."""
    return option.run.adds_up


def _prefer(bought: Sequence[Candidate], limits: UserLimits) -> Candidate | None:
    if limits.budget_usd is None:
        return min(bought, key=lambda option: (_usd_per_run(option), option.run.seconds), default=None)
    return _nearly_fastest(bought, _upfront)


def _nearly_fastest(options: Sequence[Candidate], cost: Callable[[Candidate], float]) -> Candidate | None:
    """The fastest, or one nearly as fast that costs clearly less."""
    least = min((option.run.seconds for option in options), default=None)
    if least is None:
        return None
    tied = [option for option in options if option.run.seconds <= _TIED * least]
    fastest = min(tied, key=lambda option: (cost(option), option.run.seconds))
    near = [option for option in options if least >= NEARLY * option.run.seconds]
    cheaper = [option for option in near if cost(option) <= CLEARLY_CHEAPER * cost(fastest)]
    return min(cheaper, key=lambda option: (cost(option), option.run.seconds)) if cheaper else fastest


def best_rented(able: Sequence[Candidate], as_fast_as: Candidate | None = None) -> Candidate | None:
    """The rented GPU with the lowest cost per run; of those about as fast as another option, or faster."""
    slowest = math.inf if as_fast_as is None else as_fast_as.run.seconds / NEARLY
    rents = [option for option in able if option.kind == "rent" and option.run.seconds <= slowest]
    return min(rents, key=_usd_per_run, default=None)


def _fastest_rented(able: Sequence[Candidate]) -> Candidate | None:
    """With a budget and nothing to buy: the fastest to rent, or one nearly as fast and clearly cheaper. As with purchases,
    several GPUs only if they are much faster, or better in everything.
    """
    rents = [option for option in able if option.kind == "rent"]
    single, several = (_nearly_fastest([one for one in rents if (one.gpu_count > 1) == more], _total) for more in (False, True))
    if single is None or several is None:
        return single or several
    winners = [option for option in rents if option.gpu_count > 1 and _beats(option, single)]
    if winners:
        return _nearly_fastest(winners, _total)
    return several if _worth_more(several, single) else single


def pareto(options: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Options that no other beats in both time per run and total cost, fastest first."""
    found: list[Candidate] = []
    for option in sorted(options, key=lambda option: (option.run.seconds, _total(option))):
        if not found or _total(option) < _total(found[-1]):
            found.append(option)
    return tuple(found)


def _shown(
    best: Candidate | None, beside: Sequence[Candidate], front: Sequence[Candidate], able: Sequence[Candidate]
) -> tuple[Candidate, ...]:
    """Return at most seven: the best, a few spread along the front, and the best of each other kind. Options that another
    beats in both time and cost are not shown, except those without a price, whose cost is unknown.
    """
    ends = [option for option in dict.fromkeys(beside) if option is not best]
    room = MOST_ROWS - len(ends) - (best is not None)
    own_s = min((option.run.seconds for option in able if option.kind == "keep"), default=math.inf)
    slowest = own_s if best is None else min(own_s, _USEFUL * best.run.seconds)  # only faster ones than what is paid for
    rest = [one for one in front if one is not best and one not in ends and one.run.seconds <= slowest]
    chosen = spread(rest, room)
    if len(chosen) < room:
        unpriced = [option for option in able if option.total_usd is None]
        others = [option for option in unpriced if option not in (*chosen, *ends, *rest, best)]
        others.sort(key=lambda option: option.run.seconds)
        chosen += others[: room - len(chosen)]
    bought = [option for option in ends if option.kind.startswith("buy")]
    rows = sorted([*chosen, *bought], key=lambda option: option.run.seconds)
    return tuple([best] if best else []) + tuple(rows) + tuple(option for option in ends if option not in bought)


def _usd_per_run(option: Candidate) -> float:
    return option.usd_per_run if option.usd_per_run is not None else float("inf")


def _upfront(option: Candidate) -> float:
    return math.inf if option.upfront_usd is None else option.upfront_usd


def _total(option: Candidate) -> float:
    return option.total_usd if option.total_usd is not None else math.inf


# ---------------------------------------------------------------- thresholds that would change the answer

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
    return _usd_per_run(at_price(option, option.price.low_usd, terms)) <= WORTH_A_CHANGE * _usd_per_run(best)


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
