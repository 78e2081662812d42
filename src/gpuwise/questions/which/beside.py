"""Sentences that a verdict of `which` adds to its recommendation: several cheaper cards, and what the budget would rent."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.advise.candidates import Candidate
from gpuwise.advise.choosing import shortfall
from gpuwise.core.units import format_si
from gpuwise.questions.which.survey import Survey, a

__all__ = ["rent_instead", "sooner_together"]


def sooner_together(survey: Survey, best: Candidate, shown: Sequence[Candidate]) -> str:
    """Several cards that are faster and cheaper than the recommended one, and why they are not recommended."""
    cost = best.upfront_usd
    if best.kind != "buy new" or best.gpu_count > 1 or cost is None:
        return ""
    cheaper = [one for one in shown if one.gpu_count > 1 and one.upfront_usd is not None and one.upfront_usd < cost]
    first = min(cheaper, key=lambda one: one.run.seconds, default=None)
    if first is None or first.upfront_usd is None or first.run.seconds >= best.run.seconds:
        return ""
    faster, less = best.run.seconds / first.run.seconds, survey.money(cost - first.upfront_usd)
    why = "one card is simpler to build and has all its memory in one piece"
    return f" {first.name} would be {faster:.2f} times as fast for {less} less, but {why}."


def rent_instead(survey: Survey) -> str:
    """What the budget would rent instead: of the GPUs that fit, the one with the lowest cost per run."""
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
    hired = f"{a(best.name)} for {hours:,.0f} hours ({rate} an hour)"
    return f" {survey.money(budget)} would instead rent {hired}: {lasts}, or {does}."
