"""What `which` tells labs besides its recommendation: what a run is, and how many servers the budget buys."""

from __future__ import annotations

from gpuwise.advise.candidates import Candidate
from gpuwise.core.text import both
from gpuwise.money.costs import COOLING, in_server, server_for
from gpuwise.questions.which.survey import Survey

__all__ = ["for_labs"]


def for_labs(survey: Survey, best: Candidate) -> str:
    """Sentences for budgets that only labs have."""
    budget = survey.query.limits.budget_usd or 0.0
    return f"{_describe_run(survey)}{_machines(survey, best, budget)}"


def _describe_run(survey: Survey) -> str:
    """What a run is, where no model was named: a lab must know whether that is like its own work."""
    if survey.query.text is not None or len(survey.query.jobs) < 2:
        return ""
    return f" A run trains {both(job.model for job in survey.query.jobs)}; use `--task` or `--model` for your own work."


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
