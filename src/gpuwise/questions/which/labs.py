"""What `which` tells labs besides its recommendation: the servers, their power, and how many of them the budget buys."""

from __future__ import annotations

from gpuwise.advise.candidates import Candidate
from gpuwise.money.costs import COOLING, in_server, server_for, servers_of
from gpuwise.money.prices import NUMBERS
from gpuwise.questions.which.survey import Survey

__all__ = ["describe_servers", "for_labs"]


def describe_servers(option: Candidate) -> str:
    """The servers of an option, and what connects them."""
    count = int(servers_of(option.gpu, option.gpu_count))
    return "a server" if count == 1 else f"{NUMBERS[count]} servers and the network between them"


def for_labs(survey: Survey, best: Candidate) -> str:
    """The power that these servers draw, and how many such sets the budget buys."""
    cost, budget = best.upfront_usd, survey.query.limits.budget_usd or 0.0
    if not cost or not best.kind.startswith("buy") or not in_server(best.gpu):
        return ""
    servers, count = servers_of(best.gpu, best.gpu_count), int(budget // cost)
    watts = servers * server_for(best.gpu, best.gpu_count).watts + best.gpu_count * (best.gpu.tdp_watts or 0.0)
    which = "The server draws" if servers == 1 else "The servers draw"
    power = f" {which} up to {watts / 1000:,.1f} kW, and cooling takes {COOLING * watts / 1000:,.1f} kW more."
    if count < 2:
        return power
    return f"{power} The budget covers {count:,} such sets; `gpuwise plan` shows how one job scales over them."
