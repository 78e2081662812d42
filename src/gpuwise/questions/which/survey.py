"""All options that `which` considered, and helpers that its sentences share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuwise.advise.candidates import Candidate, TaskRun
from gpuwise.advise.choosing import UserLimits, best_bought, shortfall
from gpuwise.box.types import CheckLine
from gpuwise.questions.common.jobs import Priced
from gpuwise.questions.which.ask import WhichQuery

__all__ = ["TIERS_USD", "Survey", "a", "alike", "buys", "failures", "pick_at", "spent"]

TIERS_USD = (300.0, 500.0, 800.0, 1200.0, 2000.0, 4000.0, 9000.0)  # recommended for where no budget is given


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """All options that were considered. `refused` are sets of cards that no usual machine can hold, `older` are cards sold only
    used, without a published price; `build` has the checks of each option by its key."""

    query: WhichQuery
    priced: tuple[Priced, ...]
    options: tuple[Candidate, ...]
    refused: tuple[Candidate, ...]
    older: tuple[TaskRun, ...]
    build: dict[str, tuple[CheckLine, ...]]

    def money(self, usd: float | None) -> str:
        """An amount in the user's currency; cents only for small amounts."""
        if usd is None:
            return "unknown"
        currency = self.query.book.currency
        return currency.show(usd, 0 if abs(usd) >= 10 * currency.usd_per_unit else None)


def a(name: str) -> str:
    return (
        name
        if name[0].isdigit()
        else f"an {name}"
        if name[:3] in ("RTX", "RX ", "AI ", "Arc") or name[0] in "AHLM"
        else f"a {name}"
    )


def buys(survey: Survey) -> list[Candidate]:
    return [option for option in survey.options if option.kind.startswith("buy")]


def alike(option: Candidate, best: Candidate | None) -> bool:
    """Whether two options can be compared: a single GPU only with single ones, since several need other code."""
    return best is None or best.gpu_count > 1 or option.gpu_count == 1


def spent(option: Candidate) -> float:
    spent = option.total_usd if option.kind == "rent" else option.upfront_usd
    return float("inf") if spent is None else spent


def failures(survey: Survey, option: Candidate) -> list[CheckLine]:
    return [line for line in survey.build.get(option.key, ()) if line.verdict == "fail"]


def pick_at(options: Sequence[Candidate], budget_usd: float) -> Candidate | None:
    """The best single card for this budget."""
    limits = UserLimits(budget_usd=budget_usd)
    return best_bought([option for option in options if option.gpu_count == 1 and not shortfall(option, limits)], limits)
