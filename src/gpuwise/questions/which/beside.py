"""What a verdict of `which` says beside the card it takes: several cheaper ones, and what the budget would rent."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.advise.candidates import Candidate
from gpuwise.advise.choosing import shortfall
from gpuwise.core.units import format_si
from gpuwise.questions.which.survey import Survey, a

__all__ = ["rent_instead", "sooner_together"]


def sooner_together(survey: Survey, best: Candidate, shown: Sequence[Candidate]) -> str:
    """Several cards that beat the one that is taken in time and price, and why they are not taken."""
    cost = best.upfront_usd
    if best.kind != "buy new" or best.gpu_count > 1 or cost is None:
        return ""
    cheaper = [one for one in shown if one.gpu_count > 1 and one.upfront_usd is not None and one.upfront_usd < cost]
    first = min(cheaper, key=lambda one: one.run.seconds, default=None)
    if first is None or first.upfront_usd is None or first.run.seconds >= best.run.seconds:
        return ""
    faster, less = best.run.seconds / first.run.seconds, survey.money(cost - first.upfront_usd)
    why = "one card is simpler to build and has its memory in one piece"
    return f" {first.name} would be {faster:.2f} times as fast for {less} less, but {why}."


def rent_instead(survey: Survey) -> str:
    """What a budget rents in place of a card: of what fits, the rent whose runs cost least."""
    budget, terms = survey.query.limits.budget_usd, survey.query.terms
    rents = [one for one in survey.options if one.kind == "rent" and shortfall(one, survey.query.limits) in ("", "budget")]
    best = min(rents, key=lambda one: one.usd_per_run or float("inf"), default=None)
    if budget is None or best is None or best.rent is None:
        return ""
    hours = budget / best.rent.usd_per_gpu_hour / best.gpu_count
    rate = survey.query.book.currency.show(best.rent.usd_per_gpu_hour, 2)
    weekly = 168 * terms.utilization
    lasts = f"{hours / weekly:,.0f} weeks at {weekly:.0f} hours"
    lasts = lasts if hours < terms.hours else f"more than you would use in {terms.years:g} years"
    does = f"{hours * 3600 / best.run.seconds:,.0f} runs of {format_si(best.run.seconds, 's')}"
    hired = f"{hours:,.0f} hours of {a(best.name)} ({rate} an hour)"
    return f" Spent on rent, {survey.money(budget)} are {hired}: {lasts}, {does}."
