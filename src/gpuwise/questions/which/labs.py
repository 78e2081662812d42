"""What `which` tells labs beside its recommendation: what a run is, what is sold new, and how many servers the budget buys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuwise.advise.candidates import Candidate
from gpuwise.advise.choosing import best_bought, shortfall
from gpuwise.core.text import a, both
from gpuwise.money.costs import COOLING, in_server, server_for
from gpuwise.questions.which.survey import Survey, buys, make_survey

__all__ = ["for_labs"]


def for_labs(survey: Survey, best: Candidate, shown: Sequence[Candidate]) -> str:
    """Sentences for budgets that only labs have."""
    budget = survey.query.limits.budget_usd or 0.0
    return f"{_describe_run(survey)}{_sold_new(survey, best, shown)}{_machines(survey, best, budget)}"


def _describe_run(survey: Survey) -> str:
    """What a run is, where no model was named: a lab must know whether that is like its own work."""
    if survey.query.text is not None or len(survey.query.jobs) < 2:
        return ""
    return f" A run trains {both(job.model for job in survey.query.jobs)}; use `--task` or `--model` for your own work."


def _sold_new(survey: Survey, best: Candidate, shown: Sequence[Candidate]) -> str:
    """The best purchase that is sold new, where all that are shown are used: many labs may not buy used ones."""
    bought = [one for one in shown if one.kind.startswith("buy")]
    if not bought or any(one.kind == "buy new" for one in bought) or "buy new" not in survey.query.kinds:
        return ""
    kinds = survey.query.kinds & {"buy new", "buy used"}
    wanted = replace(survey.query.wanted, condition="new")
    sold = make_survey(replace(survey.query, wanted=wanted, kinds=kinds, have=()), lambda text: None)
    able = [one for one in buys(sold) if one.kind == "buy new" and not shortfall(one, sold.query.limits)]
    found = best_bought(able, sold.query.limits)
    if found is None:
        return ""
    slower = found.run.seconds / best.run.seconds
    takes = f"takes {slower:.1f} times as long" if slower >= 1 else f"is {1 / slower:.1f} times as fast"
    what = f"{a(found.name)} ({survey.money(found.upfront_usd)})"
    return f" All cards to buy below are used; the best option sold new (`--buy`) is {what}, which {takes}."


def _machines(survey: Survey, best: Candidate, budget: float) -> str:
    """How many of these servers the budget buys, and the power that they draw."""
    cost = best.upfront_usd
    if not cost or not best.kind.startswith("buy") or not in_server(best.gpu) or budget < 2 * cost:
        return ""
    count, server = int(budget // cost), server_for(best.gpu)
    watts = count * (server.watts + best.gpu_count * (best.gpu.tdp_watts or 0.0))
    power = f"{watts / 1000:,.0f} kW, and {COOLING * watts / 1000:,.0f} kW more for cooling"
    return (
        f" The budget covers {count:,} such servers, which draw up to {power}; `gpuwise plan` shows how one job scales over them."
    )
