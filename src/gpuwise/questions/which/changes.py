"""What would change the answer of `which`, with numbers: prices, hours, budget, memory, more cards."""

from __future__ import annotations

from gpuwise.advise.candidates import Candidate
from gpuwise.advise.choosing import WORTH_A_CHANGE, Selection, UserLimits, best_bought, even_hours_per_week, shortfall, worth_usd
from gpuwise.core.units import GIB
from gpuwise.questions.which.survey import Survey, a, alike, buys, failures, spent

__all__ = ["changes"]

_FEW = 4  # cards that are named
_ENOUGH_MEMORY = 0.75  # of the best buy's: a used card with less is another kind of card
_LEAST_PRICE = 0.25  # of the launch price, assumed: nobody sells a working card for less
_NEARLY_EQUAL = 1.02  # times as long still counts as equally fast
_MORE_MEMORY = 1.4  # times the memory is worth mentioning
_LITTLE_MORE = 1.25  # times the price
_FASTER = 1.15  # times as fast: a smaller gain is not worth a larger budget


def changes(survey: Survey, chosen: Selection) -> tuple[str, ...]:
    """What would change the recommendation: prices, hours, budget, memory, more cards."""
    taken, best = chosen.bought if survey.query.general else chosen.best, chosen.bought
    found = [_used_cards(survey, best), _hours(survey, chosen), _faster(survey, chosen), _budget(survey, best)] if best else []
    found += [_roomier(survey, best), _several_more(survey, best)] if best and best is taken else []
    return tuple(text for text in (*found, _memory(taken)) if text)


def _used_cards(survey: Survey, best: Candidate) -> str:
    """Used cards and the prices below which they are worth it. Unrealistically low prices are left out."""
    budget = survey.query.limits.budget_usd or float("inf")
    always, below = [], []
    for run in sorted(survey.older, key=lambda run: run.seconds):
        price = worth_usd(run, survey.query.terms, best) or 0.0
        enough = run.fits and run.gpu.memory_bytes >= _ENOUGH_MEMORY * best.gpu.memory_bytes
        if enough and min(price, budget) >= _LEAST_PRICE * (run.gpu.launch_usd or 0.0):
            name = f"{run.gpu.name} ({run.gpu.memory_bytes / GIB:.0f} GB)"
            always += [name] if price >= budget else []
            below += [f"{name} {survey.money(price)}"] if price < budget else []
    cheaper = f"a used card has a lower cost per run than {a(best.name)}"
    parts = [f"at any price within the budget: {', '.join(always[:_FEW])}"] if always else []
    parts += [f"below these prices: {', '.join(below[:_FEW])}"] if below else []
    return f"{cheaper} {'; '.join(parts)}" if parts else ""


def _hours(survey: Survey, chosen: Selection) -> str:
    if chosen.rented is None or chosen.rented.rent is None or chosen.bought is None or chosen.bought.total_usd is None:
        return ""
    hours = even_hours_per_week(chosen.bought, chosen.rented, survey.query.terms)
    rate = survey.query.book.currency.show(chosen.rented.rent.usd_per_gpu_hour, 2)
    who, now = f"{a(chosen.rented.name)} at {rate} an hour", 168 * survey.query.terms.utilization
    if hours is None:
        return f"renting {who} is cheaper at any number of hours"
    if chosen.best is chosen.rented:
        return f"above {hours:.0f} hours a week owning {a(chosen.bought.name)} is cheaper"
    if hours <= now:
        return f"below {hours:.0f} hours a week renting {who} is cheaper"
    trouble = "you would also have to copy data and wait for machines"
    return f"renting {who} is cheaper up to {hours:.0f} hours a week, so also at {now:.0f}; {trouble}"


def _faster(survey: Survey, chosen: Selection) -> str:
    """What a clearly faster card would cost, where the user's own card is kept because it is cheaper."""
    kept = chosen.kept
    if kept is None or chosen.best is not kept or survey.query.limits.budget_usd is not None:
        return ""
    faster = [one for one in buys(survey) if one.gpu_count == 1 and not shortfall(one, survey.query.limits)]
    quick = best_bought([one for one in faster if kept.run.seconds >= WORTH_A_CHANGE * one.run.seconds], UserLimits())
    if quick is None or quick.upfront_usd is None:
        return ""
    return f"{a(quick.name)} ({survey.money(quick.upfront_usd)}) is {kept.run.seconds / quick.run.seconds:.2f} times as fast"


def _roomier(survey: Survey, best: Candidate) -> str:
    """The same speed with more memory, for a little more."""
    able = [
        one
        for one in buys(survey)
        if one.gpu_count == best.gpu_count
        and one.run.seconds <= _NEARLY_EQUAL * best.run.seconds
        and one.gpu.memory_bytes >= _MORE_MEMORY * best.gpu.memory_bytes
        and best.upfront_usd
        and best.upfront_usd <= (one.upfront_usd or float("inf")) <= _LITTLE_MORE * best.upfront_usd
    ]
    if not able:
        return ""
    more = min(able, key=spent)
    memory = f"{more.gpu.memory_bytes / GIB:.0f} GB instead of {best.gpu.memory_bytes / GIB:.0f}"
    return f"{survey.money(spent(more) - spent(best))} more buys {a(more.name)}: equally fast, with {memory}"


def _budget(survey: Survey, best: Candidate) -> str:
    """The next step up."""
    budget = survey.query.limits.budget_usd
    if budget is None:
        return ""
    better = [
        option
        for option in survey.options
        if option.kind.startswith("buy")
        and shortfall(option, survey.query.limits) == "budget"
        and best.run.seconds >= _FASTER * option.run.seconds
        and alike(option, best)
    ]
    if not better:
        return ""
    more = best_bought(sorted(better, key=lambda option: option.upfront_usd or 0.0)[:1], UserLimits())
    if more is None:
        return ""
    over = survey.money((more.upfront_usd or 0.0) - budget)
    return f"{over} more in the budget buys {a(more.name)}, {best.run.seconds / more.run.seconds:.2f} times as fast"


def _several_more(survey: Survey, best: Candidate) -> str:
    """A second one of the same."""
    two = [
        option
        for option in (*survey.options, *survey.refused)
        if option.gpu.name == best.gpu.name and option.gpu_count == 2 * best.gpu_count
    ]
    bought = [option for option in two if option.kind == best.kind]
    if not bought:
        return ""
    failed = [line.text for line in failures(survey, bought[0])]
    gain = best.run.seconds / bought[0].run.seconds
    trouble = f", but {failed[0]}" if failed else ""
    more = f"a second {best.gpu.name} makes" if best.gpu_count == 1 else f"{best.gpu_count} more {best.gpu.name} make"
    if gain < _FASTER:
        return f"{more} one job no faster ({gain:.2f} times: gradients wait for the link), but separate jobs run side by side"
    return (
        f"{more} a run {gain:.2f} times as fast if your code uses both{trouble}"
        if best.gpu_count == 1
        else (f"{more} a run {gain:.2f} times as fast if your code uses all of them{trouble}")
    )


def _memory(best: Candidate | None) -> str:
    if best is None:
        return ""
    usable = best.run.paces[0].usable_bytes
    needed = best.run.needed_bytes / GIB
    return f"models that need more than {usable / GIB:.0f} GiB do not fit {a(best.gpu.name)}; this one needs {needed:.1f} GiB"
