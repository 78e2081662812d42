"""All that `which` looked at, and the words that its sentences share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuwise.advise.choosing import Limits, best_bought, shortfall
from gpuwise.advise.options import Option, Run
from gpuwise.box.types import Line
from gpuwise.questions.common.jobs import Priced
from gpuwise.questions.which.ask import WhichQuery

__all__ = ["TIERS_USD", "Scene", "a", "alike", "buys", "failures", "pick_at", "spent"]

TIERS_USD = (300.0, 500.0, 800.0, 1200.0, 2000.0, 4000.0, 9000.0)  # budgets of an answer to no budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that was looked at. `refused` are sets of cards that no usual machine carries, `older` cards that are sold used only,
    without a published price; `build` is by option."""

    query: WhichQuery
    priced: tuple[Priced, ...]
    options: tuple[Option, ...]
    refused: tuple[Option, ...]
    older: tuple[Run, ...]
    build: dict[str, tuple[Line, ...]]

    def money(self, usd: float | None) -> str:
        """Cents are told of small amounts only."""
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


def buys(scene: Scene) -> list[Option]:
    return [option for option in scene.options if option.kind.startswith("buy")]


def alike(option: Option, best: Option | None) -> bool:
    """One GPU is held against single ones: several ask for other code."""
    return best is None or best.gpu_count > 1 or option.gpu_count == 1


def spent(option: Option) -> float:
    spent = option.total_usd if option.kind == "rent" else option.upfront_usd
    return float("inf") if spent is None else spent


def failures(scene: Scene, option: Option) -> list[Line]:
    return [line for line in scene.build.get(option.key, ()) if line.verdict == "fail"]


def pick_at(options: Sequence[Option], budget_usd: float) -> Option | None:
    """The best single card that so much money buys."""
    limits = Limits(budget_usd=budget_usd)
    return best_bought([option for option in options if option.gpu_count == 1 and not shortfall(option, limits)], limits)
