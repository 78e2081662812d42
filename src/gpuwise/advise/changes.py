"""What would change an answer, in numbers: the price at which another card is worth it, the hours at which renting is cheaper."""

from __future__ import annotations

from gpuwise.advise.candidates import Candidate, TaskRun, Terms, owned
from gpuwise.money.types import HOURS_PER_YEAR

__all__ = ["even_hours_per_week", "worth_usd"]

_WEEKS_PER_YEAR = HOURS_PER_YEAR / 168.0


def worth_usd(run: TaskRun, terms: Terms, against: Candidate) -> float | None:
    """What one of these GPUs may cost so that its runs cost as much as those of the other option; None where it never pays.

    runs x cost of a run = price + machine + electricity, solved for the price.
    """
    if against.usd_per_run is None:
        return None
    free = owned(run, terms, None, kind="keep")  # nothing paid for card and machine
    price = (free.runs * against.usd_per_run - (free.total_usd or 0.0) - terms.machine_usd) / run.gpu_count
    return price if price > 0 else None


def even_hours_per_week(bought: Candidate, rented: Candidate, terms: Terms) -> float | None:
    """Hours a week of the bought GPU's work at which renting the same work costs the same; None where owning never gets there.

    rent a run = upfront / runs + electricity a run, solved for the runs.
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
