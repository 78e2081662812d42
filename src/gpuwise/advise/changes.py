"""Thresholds that would change an answer: the price at which another card pays off, the hours at which renting is cheaper."""

from __future__ import annotations

from gpuwise.advise.candidates import Candidate, TaskRun, Terms, owned
from gpuwise.money.types import HOURS_PER_YEAR

__all__ = ["even_hours_per_week", "worth_usd"]

_WEEKS_PER_YEAR = HOURS_PER_YEAR / 168.0


def worth_usd(run: TaskRun, terms: Terms, against: Candidate) -> float | None:
    """The price of one of these GPUs at which its cost per run equals that of the other option; None where it never pays.

    runs x cost per run = price + machine + electricity, solved for the price.
    """
    if against.usd_per_run is None:
        return None
    free = owned(run, terms, None, kind="keep")  # nothing paid for card and machine
    price = (free.runs * against.usd_per_run - (free.total_usd or 0.0) - terms.machine_usd) / run.gpu_count
    return price if price > 0 else None


def even_hours_per_week(bought: Candidate, rented: Candidate, terms: Terms) -> float | None:
    """Hours of use per week at which owning and renting cost the same for the same work; None where owning is never cheaper.

    rent per run = upfront / runs + electricity per run, solved for the runs.
    """
    if rented.usd_per_run is None or bought.total_usd is None or bought.upfront_usd is None or not bought.runs:
        return None
    once = bought.total_usd - bought.running_usd
    running = bought.running_usd / bought.runs
    if rented.usd_per_run <= running:
        return None
    runs = once / (rented.usd_per_run - running)
    hours = runs * bought.run.seconds / 3600 / terms.years / _WEEKS_PER_YEAR
    return hours if hours <= 168.0 else None
