"""What would change the recommendation of `which`: prices, hours of use, a larger budget, more memory, more cards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuwise.advise.candidates import Candidate, Terms
from gpuwise.advise.choosing import (
    CLEARLY_CHEAPER,
    NEARLY,
    WORTH_A_CHANGE,
    Selection,
    UserLimits,
    adds_up,
    best_bought,
    even_hours_per_week,
    recommend,
    shortfall,
    usd_per_run,
)
from gpuwise.advise.jobs import Job
from gpuwise.core.text import a, are, both, plural
from gpuwise.core.units import GIB
from gpuwise.money.costs import DESK_USE, LAB_USE, WEEK_HOURS
from gpuwise.questions.common.jobs import Priced
from gpuwise.questions.which.instead import TROUBLE, faster
from gpuwise.questions.which.language_paces import LanguagePace, format_rate
from gpuwise.questions.which.language_words import more_for_text
from gpuwise.questions.which.survey import Survey, buys, failures, spent
from gpuwise.questions.which.words import alike, one_more, renting

__all__ = ["Flip", "at_price", "changes", "price_flips"]

_MANY_BYTES = 24 * GIB  # of a model in 16 bits: more than the usual cards hold
_FEW = 2  # prices that are named
_ABOUT_EQUAL = 1.05  # times as long: no difference in practice
_NEARLY_EQUAL = 1.02  # times as long still counts as equally fast
_MORE_MEMORY = 1.3  # times the memory is worth mentioning: 16 GB instead of 12 GB
_LITTLE_MORE = 1.25  # times the price
_FAR_SLOWER = 4.0  # times as long: another kind of machine
_WITHIN_REACH = 2.0  # times the budget: nobody spends more, assumed
_FASTER = 1.15  # times as fast: a smaller gain is not worth a larger budget
_FAST_ENOUGH = 0.75  # of the speed: a much cheaper option with less is another class of card


def changes(survey: Survey, chosen: Selection) -> tuple[str, ...]:
    """What would change the recommendation: prices, hours, budget, memory, more cards."""
    taken, best = chosen.bought if survey.query.general else chosen.best, chosen.bought
    main = taken or best
    said = bool(best and best is taken and renting(survey, chosen, best))  # the verdict itself compares with renting
    hours = "" if said else _hours(survey, chosen)
    first, last = (hours, "") if _hangs_on_a_guess(survey, chosen) else ("", hours)
    larger, above, found = _larger(survey, taken), "", list[str]()
    if main:
        above = _budget(survey, main)
        found = [first, _cheaper(survey, main), larger, *_prices(survey, chosen, above), last]
        found += [faster(survey, chosen.kept, chosen.bought) if chosen.kept and chosen.best is chosen.kept else "", above]
    if best and best is taken:
        told = f" {2 * best.gpu_count}x {best.gpu.name} " in above
        found += ["" if larger else _roomier(survey, best), "" if told else _several_more(survey, best)]
    return tuple(text for text in (*found, _adapters(survey), "" if larger else _memory(taken)) if text)


def _could_shrink(job: Job, priced: Priced) -> bool:
    """Return whether a model runs with 16-bit weights because no format was given, and they are many."""
    wide = [pace for pace in priced.paces.values() if isinstance(pace, LanguagePace) and pace.weights in ("fp16", "bf16")]
    return "int4" in job.ways and min((pace.memory_bytes * pace.gpu_count for pace in wide), default=0.0) > _MANY_BYTES


def _hangs_on_a_guess(survey: Survey, chosen: Selection) -> bool:
    """Return whether renting or buying is cheaper depends on which of the two usual numbers of hours is assumed."""
    guessed = any(note.code == "hours_per_week" for note in survey.query.assumptions)
    rented, bought = chosen.hired or chosen.rented, chosen.bought
    if not guessed or rented is None or bought is None:
        return False
    hours = even_hours_per_week(bought, rented, survey.query.terms)
    return hours is not None and DESK_USE * WEEK_HOURS <= hours <= LAB_USE * WEEK_HOURS


def _adapters(survey: Survey) -> str:
    """What smaller GPUs could do where all weights of a large model are trained, or used in 16 bits."""
    if survey.query.text is not None:
        large = [job.model for job, priced in zip(survey.query.jobs, survey.priced, strict=True) if _could_shrink(job, priced)]
        return f"with 4-bit weights (`--weights int4`), {both(large)} would fit on smaller GPUs" if large else ""
    jobs = zip(survey.query.jobs, survey.priced, strict=True)
    able = [job.model for job, priced in jobs if priced.way == "checkpoint" and "lora" in job.ways]
    return f"with LoRA adapters (`--method lora`), {both(able)} would fit on smaller GPUs" if able else ""


def _prices(survey: Survey, chosen: Selection, above: str) -> list[str]:
    """Return offered prices that would change the recommendation, except of a card that `above`, on a larger budget, names."""
    if chosen.best is None or not chosen.best.kind.startswith("buy") or survey.query.general:
        return []
    found = []
    for flip in price_flips(survey.options, survey.query.limits, survey.query.terms, chosen.best):
        price, at = flip.option.price, survey.money(flip.usd)
        if price is None:
            continue
        if at == survey.money(price.usd):  # the prices are at the very point where the recommendation changes
            other = flip.then if flip.option is chosen.best else flip.option
            found.append(f"at these prices, {a(other.name)} is as good a choice")
            continue
        if flip.option is chosen.best:
            who = "the estimate ranges from" if price.estimated else "sellers ask"
            span = f"{who} {survey.money(price.low_usd)} to {survey.money(price.high_usd)}"
            most = survey.query.limits.budget_usd or 0.0
            more = f"more than the {survey.money(most)} that you can spend" if at == survey.money(most) else f"{at} or more"
            found.append(f"if {a(flip.option.gpu.name)} costs {more} ({span}), {_instead(flip.then)} the better choice")
        elif f" {(named := flip.option.gpu.name)} " not in above:
            now = f"{'estimated at ' if price.estimated else 'now '}{survey.money(price.usd)}"
            found.append(f"if {a(named)} costs {at} or less ({now}), {_instead(flip.then, named)} the better choice")
    return list(dict.fromkeys(found))[:_FEW]


def _instead(option: Candidate, named: str = "") -> str:
    if option.kind == "keep":
        return "keeping what you have is"
    own = "it is" if option.name == named else f"{a(option.name)} {are(option.name)}"
    return f"renting {a(option.name)} is" if option.kind == "rent" else own


def _hours(survey: Survey, chosen: Selection) -> str:
    rented = chosen.best if chosen.best and chosen.best.kind == "rent" else chosen.hired or chosen.rented
    bought = chosen.bought
    if rented and bought and rented.run.seconds > _FAR_SLOWER * bought.run.seconds:
        return ""
    if rented is None or rented.rent is None or bought is None or bought.total_usd is None or chosen.best is chosen.kept:
        return ""
    hours = even_hours_per_week(bought, rented, survey.query.terms)
    rate = survey.query.book.currency.show(rented.rent.usd_per_gpu_hour, 2)
    who = f"{a(rented.name)} at {rate} an hour{' each' if rented.gpu_count > 1 else ''}"
    now = 168 * survey.query.terms.utilization
    if hours is None:
        return f"renting {who} is cheaper at any number of hours"
    use = plural(f"{hours:.0f}", "hour")
    if chosen.best is rented:
        return f"above {use} of use a week, buying {a(bought.name)} is cheaper"
    if hours <= now and (rented.usd_per_run or 0.0) < (bought.usd_per_run or 0.0):  # more hours than a week has would be rented
        cheaper = (
            f"renting {who} costs {1 - (rented.usd_per_run or 0.0) / (bought.usd_per_run or 1.0):.0%} less per {survey.work}"
        )
        if (users := survey.users) > 1:
            return f"{cheaper}, but generates only {format_rate(rented.run.samples_per_s / users)} tokens/s for each user"
        longer = f"takes {rented.run.seconds / bought.run.seconds:.1f} times as long"
        return f"{cheaper}, but {longer}: even day and night, it does only as much work as {bought.name} in {use} a week"
    if hours <= now:
        return f"below {use} of use a week, renting {who} is cheaper (this answer assumes {now:.0f})"
    return f"renting {who} is cheaper for up to {use} of use a week (this answer assumes {now:.0f}), but {TROUBLE}"


def _cheaper(survey: Survey, best: Candidate) -> str:
    """With a budget, the fastest of the clearly cheaper options that offer more speed for the money: not all must be spent."""
    budget, most = survey.query.limits.budget_usd, CLEARLY_CHEAPER * spent(best)
    if budget is None or not best.kind.startswith("buy"):
        return ""
    able = [one for one in buys(survey) if not shortfall(one, survey.query.limits) and one.gpu_count <= best.gpu_count]
    able = [one for one in able if spent(one) <= most and _worth_its_price(one, best)]
    less = min(able, key=lambda one: (one.run.seconds, spent(one)), default=None)
    if less is None:
        return ""
    held, own = (f"{one.gpu.memory_bytes / GIB:.0f} GB{' each' if one.gpu_count > 1 else ''}" for one in (less, best))
    smaller = less.gpu.memory_bytes < best.gpu.memory_bytes
    memory = f", but {'have' if less.gpu_count > 1 else 'has'} {held} instead of {own}" if smaller else ""
    name = a(less.name) if smaller else f"{a(less.name)} ({held})"
    share = f"{are(less.name)} {best.run.seconds / less.run.seconds:.0%} as fast"
    return f"for {survey.money(spent(best) - spent(less))} less, {name} {share}{memory}"


def _worth_its_price(cheaper: Candidate, best: Candidate) -> bool:
    """Return whether an option is fast enough to be compared with the recommended one, and offers more speed for the money."""
    return best.run.seconds >= max(_FAST_ENOUGH, spent(cheaper) / spent(best)) * cheaper.run.seconds


def _larger(survey: Survey, best: Candidate | None) -> str:
    """With a budget, what to buy for larger models, unless text is generated for several users: the fastest with more memory."""
    budget, text = survey.query.limits.budget_usd, survey.query.text
    if budget is None or best is None or best.kind == "rent" or (text and (text.users or 1) > 1):
        return ""
    able = [one for one in buys(survey) if one.run.fits and not shortfall(one, survey.query.limits)]
    able = [one for one in able if one.run.shared_bytes >= _MORE_MEMORY * best.run.shared_bytes and (text or alike(one, best))]
    if not able:
        return ""
    more = min(able, key=lambda one: one.run.seconds)
    each = "" if more.gpu_count == 1 else " in total" if text else " each"
    held = f"{a(more.name)} ({survey.money(more.upfront_usd)}, {more.run.shared_bytes / GIB:.0f} GB{each})"
    room = best.run.paces[0].usable_bytes * (best.gpu_count if text else 1)
    needs = f"models that need more than {room / GIB:.0f} GiB{'' if text else ' on one GPU'}"
    longer = more.run.seconds / best.run.seconds
    pace = f"takes {longer:.1f} times as long" if longer >= 1 else f"is {1 / longer:.1f} times as fast"
    pace = "takes about as long" if 1 / _ABOUT_EQUAL < longer < _ABOUT_EQUAL else pace
    return f"for {needs}, choose {held}; {'the same text' if text else 'a run'} then {pace}"


def _roomier(survey: Survey, best: Candidate) -> str:
    """The same speed with more memory, for slightly more money."""
    able = [
        one
        for one in buys(survey)
        if (one.gpu_count, one.run.beside) == (best.gpu_count, best.run.beside)
        and one.run.seconds <= _NEARLY_EQUAL * best.run.seconds
        and one.gpu.memory_bytes >= _MORE_MEMORY * best.gpu.memory_bytes
        and best.upfront_usd
        and best.upfront_usd <= (one.upfront_usd or float("inf")) <= _LITTLE_MORE * best.upfront_usd
    ]
    if not able:
        return ""
    more = min(able, key=spent)
    memory = f"{more.gpu.memory_bytes / GIB:.0f} GB instead of {best.gpu.memory_bytes / GIB:.0f} GB"
    return f"for {survey.money(spent(more) - spent(best))} more, you get {a(more.name)}, which is just as fast and has {memory}"


def _budget(survey: Survey, best: Candidate) -> str:
    """The next step up."""
    budget = survey.query.limits.budget_usd
    if budget is None:
        return ""
    better = [
        option
        for option in buys(survey)
        if shortfall(option, survey.query.limits) == "budget"
        and spent(option) <= _WITHIN_REACH * budget
        and best.run.seconds >= (WORTH_A_CHANGE if best.kind == "keep" else _FASTER) * option.run.seconds
        and option.gpu.memory_bytes >= best.gpu.memory_bytes * (best.kind == "keep")
        and (alike(option, best) or option.added or adds_up(option))
    ]
    more = best_bought(sorted(better, key=lambda option: option.upfront_usd or 0.0)[:1], UserLimits())
    if more is None:
        return ""
    over = survey.money((more.upfront_usd or 0.0) - budget)
    gain = best.run.seconds / more.run.seconds
    bought = one_more(more) or a(more.name)
    return (
        f"for {over} more than your budget, you could buy {bought} and {survey.do} {gain:.{1 if gain >= 2 else 2}f} times as fast"
    )


def _several_more(survey: Survey, best: Candidate) -> str:
    """A second one of the same."""
    two = [
        option
        for option in (*survey.options, *survey.refused)
        if (option.gpu.name, option.gpu_count) == (best.gpu.name, 2 * best.gpu_count)
        and not (best.run.beside or option.run.beside)
    ]
    bought = [option for option in two if option.kind == best.kind]
    failed = [line.text for line in failures(survey, bought[0])] if bought else []
    if not bought or not bought[0].run.fits or (best.gpu_count > 1 and failed):
        return ""
    gain = best.run.seconds / bought[0].run.seconds
    trouble = f", but a typical machine does not support it: {failed[0]}" if failed else ""
    more = (bought[0].upfront_usd or 0.0) - (best.upfront_usd or 0.0)
    cost = f" ({survey.money(more)} more)" if more > 0 and gain >= _FASTER else ""
    added = f"a second {best.gpu.name}{cost}" if best.gpu_count == 1 else f"{best.gpu_count} more {best.gpu.name} GPUs{cost}"
    if survey.query.text:
        return more_for_text(added, gain, gain >= _FASTER, trouble)
    if gain < _FASTER:
        slow = f"{gain:.2f} times as fast, because the link slows down the exchange of gradients"
        return f"{added} would not speed up a single job ({slow}), but separate jobs could run at the same time"
    used = "both" if best.gpu_count == 1 else "all of them"
    return f"{added} would make a run {gain:.2f} times as fast if your code uses {used}{trouble}"


def _memory(best: Candidate | None) -> str:
    if best is None or getattr(best.run.paces[0], "offloaded", False):
        return ""
    usable, needed = best.run.paces[0].usable_bytes, best.run.needed_bytes / GIB
    this = "this one" if len(best.run.paces) == 1 else "the largest job here"
    room, name, needs = usable, best.gpu.name, f"{this} needs {needed:.1f} GiB"
    if isinstance(best.run.paces[0], LanguagePace) and best.gpu_count > 1:
        parts = [count * gpu.usable_memory_bytes for gpu, count in best.run.parts]
        room, name = sum(parts) if best.run.beside else best.gpu_count * usable, best.name
        needs = f"{this} needs {needed:.1f} of the {usable / GIB:.1f} usable GiB on each GPU"
    return f"a model that needs more than {room / GIB:.0f} GiB would not fit on {a(name)} ({needs})"


# ---------------------------------------------------------------- prices and hours at which the recommendation changes

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
