"""What `which` recommends if nothing is said about the jobs, the budget or the present GPU: the best value of several budgets."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.advise.candidates import Candidate
from gpuwise.advise.choosing import Selection
from gpuwise.core.text import a, the
from gpuwise.core.units import GIB
from gpuwise.questions.which.nothing import nothing
from gpuwise.questions.which.survey import Survey, price_kind
from gpuwise.questions.which.types import Parts
from gpuwise.questions.which.words import renting, sold_new

__all__ = ["general"]


def general(survey: Survey, chosen: Selection, shown: Sequence[Candidate]) -> Parts:
    """The card with the lowest cost per run of those shown, and the fastest."""
    if not shown:
        return (("pick", nothing(survey)),)
    value = min(shown, key=lambda option: option.usd_per_run or 0.0)
    fastest = min(shown, key=lambda option: option.run.seconds)
    more = value.run.seconds / fastest.run.seconds
    faster = (
        f" {the(fastest.name, first=True)} ({survey.money(fastest.upfront_usd)}) is {more:.1f} times as fast." if more > 1 else ""
    )
    price = f"{survey.money(value.upfront_usd)}{price_kind(survey, value)}, {value.gpu.memory_bytes / GIB:.0f} GB"
    return (
        ("pick", f"The best value is {a(value.name)} ({price}). "),
        ("why", "It has the lowest cost per run of the cards for sale in the table."),
        ("new", f"{sold_new(survey, value)}{faster}"),
        ("rent", renting(survey, chosen, value)),
        ("rows", " The other rows show the best cards at other budgets. Add `--model` and `--budget` for your own case."),
    )
