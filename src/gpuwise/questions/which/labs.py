"""What `which` tells labs besides its recommendation: the tokens trained, the servers, their power, and what the budget buys."""

from __future__ import annotations

from gpuwise.advise.candidates import Candidate
from gpuwise.advise.jobs import SHORT_WAYS
from gpuwise.money.costs import COOLING, in_server, server_for, servers_of
from gpuwise.money.prices import NUMBERS
from gpuwise.prediction.choices import METHODS
from gpuwise.questions.which.survey import Survey
from gpuwise.workload.store import zoo

__all__ = ["describe_servers", "for_labs"]


def describe_servers(option: Candidate) -> str:
    """The servers of an option, and what connects them."""
    count = int(servers_of(option.gpu, option.gpu_count))
    return "a server" if count == 1 else f"{NUMBERS[count]} servers and the network between them"


def for_labs(survey: Survey, best: Candidate) -> str:
    """How many tokens they train, the power that these servers draw, and how many such sets the budget buys."""
    cost, budget = best.upfront_usd, survey.query.limits.budget_usd or 0.0
    if not cost or not best.kind.startswith("buy"):
        return ""
    if not in_server(best.gpu):
        return _circuit(survey, best)
    servers, count = servers_of(best.gpu, best.gpu_count), int(budget // cost)
    watts = servers * server_for(best.gpu, best.gpu_count).watts + best.gpu_count * (best.gpu.tdp_watts or 0.0)
    which = "The server draws" if servers == 1 else "The servers draw"
    power = f" {which} up to {watts / 1000:,.1f} kW, and cooling takes {COOLING * watts / 1000:,.1f} kW more."
    told = f"{_tokens_trained(survey, best)}{power}"
    if count < 2:
        return told
    return f"{told} The budget covers {count:,} such sets; `gpuwise plan` shows how one job scales over them."


def _circuit(survey: Survey, best: Candidate) -> str:
    """Return how much power cards need that the usual outlet does not deliver."""
    short = next((line for line in survey.build.get(best.key, ()) if line.check == "outlet" and line.verdict == "fail"), None)
    if short is None or short.value is None or short.limit is None:
        return ""
    needs = f"The machine draws up to {short.value / 1000:.1f} kW, but the usual outlet delivers only {short.limit / 1000:.1f} kW"
    return f" {needs}, so connect it to a circuit with a higher rating."


def _tokens_trained(survey: Survey, best: Candidate) -> str:
    """How many tokens of the largest language model the purchase trains in all hours of use, and what they cost."""
    jobs = zip(survey.priced, best.run.paces, strict=True)
    told = [(zoo.entry(one.job.model).parameters, one, pace) for one, pace in jobs if one.job.seq and zoo.has(one.job.model)]
    told = [each for each in told if each[1].job.mode == "train"]
    if not told or best.total_usd is None or not survey.query.terms.hours:
        return ""
    parameters, priced, pace = max(told, key=lambda each: each[0])
    tokens = pace.samples_per_s * (priced.job.seq or 0) * 3600 * survey.query.terms.hours
    way = SHORT_WAYS[priced.way] if priced.way in METHODS else "in full"
    alone = "" if len(survey.priced) == 1 else " and nothing else"
    return (
        f" In {survey.horizon}, {'it trains' if best.gpu_count == 1 else 'they train'} {priced.job.model} {way}{alone} on "
        f"{_count(tokens)} tokens ({tokens / parameters:,.0f} per parameter), at "
        f"{survey.query.book.currency.show(best.total_usd / tokens * 1e6)} per million."
    )


def _count(tokens: float) -> str:
    """A large number in words.

    >>> _count(3.21e12), _count(388e9)
    ('3.2 trillion', '390 billion')
    """
    scale, word = (1e12, "trillion") if tokens >= 1e12 else (1e9, "billion")
    return f"{float(f'{tokens / scale:.2g}'):,g} {word}"
