"""Decides which option to recommend (the best within the limits), which few others to show, and what would change that.

With a budget, it is the last of ever dearer options that is worth its price, so more money never leads to a slower one. Without
a budget, it is the lowest cost per run. One GPU is preferred to several unless those are much faster and have no less memory
each. What the user has is kept unless something is clearly faster. `docs/concepts/choosing.md` has the whole rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuwise.advise.candidates import Candidate, Terms, spread
from gpuwise.core.units import GIB
from gpuwise.money.costs import WEEK_HOURS, is_cheaper_rented
from gpuwise.money.types import HOURS_PER_YEAR

__all__ = [
    "CLEARLY_CHEAPER",
    "MOST_ROWS",
    "NEARLY",
    "TIED",
    "WORTH_A_CHANGE",
    "WORTH_SEVERAL",
    "Selection",
    "UserLimits",
    "adds_up",
    "best_bought",
    "best_rented",
    "even_hours_per_week",
    "pareto",
    "recommend",
    "roomy",
    "select",
    "shortfall",
    "usd_per_run",
]

MOST_ROWS = 7  # as many options as a person can compare at a glance
NEARLY = 0.90  # share of the fastest speed: the usual error of a predicted ratio, so the difference may not exist
CLEARLY_CHEAPER = 0.85  # share of its price: the saving is worth that difference
WORTH_A_CHANGE = 1.3  # times as fast as the present GPU: less is not worth the trouble
WORTH_SEVERAL = 1.5  # times as fast as one GPU alone: more cards also need power, slots and code that uses them all
TIED = 1.02  # times as long: less than the error of a prediction, so the cheaper option is named
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
    kept = min((option for option in able if option.kind == "keep"), key=lambda option: option.run.seconds, default=None)
    if limits.budget_usd is not None:
        return _recommend_within(able, kept)
    bought = best_bought(able, limits)
    if kept and (bought is None or kept.run.seconds < WORTH_A_CHANGE * bought.run.seconds):
        return kept  # hardware that is already paid for costs less than any rent
    if kept and bought and _costs_less(kept, bought):
        sooner = best_rented([option for option in able if option.run.seconds < kept.run.seconds])
        return sooner if sooner and is_cheaper_rented(usd_per_run(kept), usd_per_run(sooner)) else kept
    if bought is None:
        return best_rented(able)
    hired = _worth_renting(able, bought)
    return bought if hired is None else _cheapest_as_fast(roomy(able), hired, limits.deadline_s or hired.run.seconds)


def _recommend_within(able: Sequence[Candidate], kept: Candidate | None) -> Candidate | None:
    """The same within a budget. Whatever a smaller budget leads to is left only for something that is at least as fast."""
    most = math.inf if kept is None else kept.run.seconds / WORTH_A_CHANGE  # slower cards are not worth the trouble
    cards = [option for option in roomy(able) if option.run.seconds <= most]
    rents, steps = [option for option in able if option.kind == "rent"], _climb(cards)
    if not rents or (kept and not steps):
        return steps[-1][1] if steps else kept
    taken: Candidate | None = None
    for budget in sorted({*(budget for budget, _ in steps), *(_total(option) for option in rents)}):
        bought = next((one for usd, one in reversed(steps) if usd <= budget), None)
        if kept and bought is None:
            continue
        slowest = math.inf if taken is None else taken.run.seconds
        found = _bought_or_rented(bought, [one for one in rents if _total(one) <= budget], slowest)
        taken = found if found is not None and found.run.seconds <= slowest else taken
    return taken if taken is None or taken.kind != "rent" else _cheapest_as_fast(cards, taken, taken.run.seconds)


def _bought_or_rented(bought: Candidate | None, rents: Sequence[Candidate], slowest_s: float) -> Candidate | None:
    """The purchase, or a rented GPU that is worth renting instead and no slower than `slowest_s`."""
    if bought is None:
        return _fastest_rented(rents)
    return _worth_renting([option for option in rents if option.run.seconds <= slowest_s], bought) or bought


def _worth_renting(able: Sequence[Candidate], bought: Candidate) -> Candidate | None:
    """The rented GPU with the lowest cost per run of those that are about as fast as a purchase, or faster, and save enough."""
    near = [one for one in able if one.kind == "rent" and one.run.seconds <= bought.run.seconds / NEARLY]
    cost = usd_per_run(bought)
    return best_rented([one for one in near if is_cheaper_rented(cost, usd_per_run(one), bought.run.seconds / one.run.seconds)])


def _cheapest_as_fast(cards: Sequence[Candidate], hired: Candidate, slowest_s: float) -> Candidate:
    """A larger purchase, such as several cards, that is fast enough and costs even less per run than a rented GPU; else that
    GPU. With a deadline, whatever meets it is fast enough; otherwise, what is as fast as the rented GPU.
    """
    cheapest = min((one for one in cards if one.run.seconds <= slowest_s), key=usd_per_run, default=hired)
    return cheapest if usd_per_run(cheapest) < usd_per_run(hired) else hired


def _costs_less(kept: Candidate, bought: Candidate) -> bool:
    """Return whether a run costs less on the user's own GPU than on one that would be bought, if its price is known. Nobody
    trains on a CPU to save electricity.
    """
    return bought.usd_per_run is not None and not kept.gpu.is_cpu and usd_per_run(kept) < bought.usd_per_run


def best_bought(able: Sequence[Candidate], limits: UserLimits) -> Candidate | None:
    """Return the best purchase: with a budget, the last that is worth its price; otherwise the cheapest per run. A card with
    less memory than the user has would be a step back.
    """
    bought = roomy(able)
    if limits.budget_usd is not None:
        steps = _climb(bought)
        return steps[-1][1] if steps else None
    single = _cheapest([option for option in bought if option.gpu_count == 1])
    least = 0.0 if single is None else min(single.gpu.memory_bytes, _ROOMY)
    sets = [option for option in bought if option.gpu_count > 1 and (adds_up(option) or option.gpu.memory_bytes >= least)]
    here, there = (_cheapest([one for one in sets if (one.gpu_count > _IN_A_MACHINE) == far]) for far in (False, True))
    several = there if there and (here is None or _worth_more(there, here)) else here
    if single is None or several is None:
        return single or several
    winners = [option for option in sets if _beats(option, single)]
    if winners:
        return _cheapest(winners)
    dearer = NEARLY * usd_per_run(single) >= usd_per_run(several)
    beaten = usd_per_run(single) > usd_per_run(several) and single.run.seconds > several.run.seconds
    return several if (dearer or beaten) and adds_up(several) else single


def _climb(bought: Sequence[Candidate]) -> list[tuple[float, Candidate]]:
    """Return what to buy, from the smallest budget to the largest, each with the budget from which it is the best purchase. Each
    is at least as fast as the one before it and worth what it costs more, so more money never leads to a slower one.
    """
    steps: list[tuple[float, Candidate]] = []
    seen: list[Candidate] = []
    for option in sorted(bought, key=lambda one: (_upfront(one), _effort(one), one.run.seconds)):
        taken = steps[-1][1] if steps else None
        if taken is None or _is_worth(option, taken):
            cheaper = [one for one in seen if taken is None or one.run.seconds <= taken.run.seconds]
            better = [one for one in cheaper if one.gpu_count > 1 and (_beats(one, option) or _is_nearly(one, option))]
            found = min(better, key=lambda one: one.run.seconds, default=option)
            near = [one for one in cheaper if NEARLY * one.run.seconds <= option.run.seconds]  # two small steps may add up
            found = min((one for one in near if _is_alike(one, found)), key=_upfront, default=found)
            steps.append((_upfront(option), min(_simpler(found, cheaper), key=lambda one: one.run.seconds, default=found)))
        seen.append(option)
    return steps


def _is_alike(cheaper: Candidate, option: Candidate) -> bool:
    """Return whether a cheaper option that was passed over is nearly as fast as a dearer one, so that the dearer one is not worth
    its price over it. Both have as many GPUs, and no less memory each.
    """
    same = cheaper.gpu_count == option.gpu_count and cheaper.gpu.memory_bytes >= option.gpu.memory_bytes
    near = NEARLY * cheaper.run.seconds <= option.run.seconds < cheaper.run.seconds
    return same and near and _upfront(cheaper) <= CLEARLY_CHEAPER * _upfront(option) and _total(cheaper) <= _total(option)


def _simpler(several: Candidate, seen: Sequence[Candidate]) -> list[Candidate]:
    """Return single cards that are no slower than a set and cost no more."""
    single = [one for one in seen if one.gpu_count == 1 < several.gpu_count and one.run.seconds <= several.run.seconds]
    return [one for one in single if _upfront(one) <= _upfront(several) and _total(one) <= _total(several)]


def _is_worth(option: Candidate, taken: Candidate) -> bool:
    """Return whether a dearer option is to be bought instead. Several cards, or several machines, must be much faster than
    fewer, and so must more cards with less memory each; and a small gain must not cost much.
    """
    gain = taken.run.seconds / option.run.seconds
    fewer, more = _effort(taken), _effort(option)
    smaller = option.gpu.memory_bytes < taken.gpu.memory_bytes and not adds_up(option)
    if more > fewer or (smaller and option.gpu_count > taken.gpu_count):
        held = adds_up(option) or option.gpu.memory_bytes >= min(taken.gpu.memory_bytes, _ROOMY)
        return held and _worth_more(option, taken)
    if more < fewer and gain >= 1 and option.run.shared_bytes > taken.run.shared_bytes:
        gain *= TIED  # simpler, with more memory for one model, and no slower
    dear = _upfront(taken) <= CLEARLY_CHEAPER * _upfront(option)
    return gain >= TIED and (gain > 1 / NEARLY or not dear)


def _effort(option: Candidate) -> int:
    """One card; several that need power, slots and code that uses them all; or several machines."""
    return (option.gpu_count > 1) + (option.gpu_count > _IN_A_MACHINE)


def _worth_more(several: Candidate, fewer: Candidate) -> bool:
    """Return whether more GPUs are so much faster that they are worth the effort."""
    return fewer.run.seconds >= (WORTH_A_CHANGE if adds_up(several) else WORTH_SEVERAL) * several.run.seconds


def _beats(several: Candidate, single: Candidate) -> bool:
    """Return whether a set is faster and costs less in every way, with no less memory for one model."""
    faster = several.run.seconds < single.run.seconds and several.run.shared_bytes >= single.run.shared_bytes
    return faster and _upfront(several) <= _upfront(single) and _total(several) <= _total(single)


def _is_nearly(several: Candidate, one: Candidate) -> bool:
    """Return whether a set that no code must change for is nearly as fast as a single card and clearly cheaper."""
    near = one.gpu_count == 1 and adds_up(several) and one.run.seconds >= NEARLY * several.run.seconds
    cheap = _upfront(several) <= CLEARLY_CHEAPER * _upfront(one)
    return near and cheap and usd_per_run(several) <= usd_per_run(one)


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


def _cheapest(options: Sequence[Candidate]) -> Candidate | None:
    return min(options, key=lambda option: (usd_per_run(option), option.run.seconds), default=None)


def _nearly_fastest(options: Sequence[Candidate], cost: Callable[[Candidate], float]) -> Candidate | None:
    """The fastest, or one nearly as fast that costs clearly less."""
    least = min((option.run.seconds for option in options), default=None)
    if least is None:
        return None
    tied = [option for option in options if option.run.seconds <= TIED * least]
    fastest = min(tied, key=lambda option: (cost(option), option.run.seconds))
    near = [option for option in options if least >= NEARLY * option.run.seconds]
    cheaper = [option for option in near if cost(option) <= CLEARLY_CHEAPER * cost(fastest)]
    return min(cheaper, key=lambda option: (cost(option), option.run.seconds)) if cheaper else fastest


def best_rented(able: Sequence[Candidate], as_fast_as: Candidate | None = None) -> Candidate | None:
    """The rented GPU with the lowest cost per run; of those about as fast as another option, or faster."""
    slowest = math.inf if as_fast_as is None else as_fast_as.run.seconds / NEARLY
    rents = [option for option in able if option.kind == "rent" and option.run.seconds <= slowest]
    return min(rents, key=usd_per_run, default=None)


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


def usd_per_run(option: Candidate) -> float:
    return option.usd_per_run if option.usd_per_run is not None else float("inf")


def _upfront(option: Candidate) -> float:
    return math.inf if option.upfront_usd is None else option.upfront_usd


def _total(option: Candidate) -> float:
    return option.total_usd if option.total_usd is not None else math.inf


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
        return None if rented.run.seconds <= bought.run.seconds else WEEK_HOURS * bought.run.seconds / rented.run.seconds
    runs = once / (rented.usd_per_run - running)
    hours = runs * bought.run.seconds / 3600 / terms.years / (HOURS_PER_YEAR / WEEK_HOURS)
    most = min(1.0, bought.run.seconds / rented.run.seconds) * WEEK_HOURS  # a slower rented GPU has no more hours than a week
    return min(hours, most) if min(hours, most) < WEEK_HOURS else None
