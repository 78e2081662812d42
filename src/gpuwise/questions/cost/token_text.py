"""The cost of tokens, as lines in the text of `cost`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuwise.core.text import the
from gpuwise.money.currency import Currency
from gpuwise.questions.cost.tokens import TokenCosts
from gpuwise.questions.cost.types import CostAnswer

if TYPE_CHECKING:  # a model needs the whole machinery; money alone does not
    from gpuwise.questions.common.language.answer import LanguagePrediction
    from gpuwise.questions.common.language.costs import TokenPrice

__all__ = ["token_rows"]


def token_rows(answer: CostAnswer, found: TokenCosts, *, verbose: bool) -> list[tuple[str, str, str]]:
    """A line for tokens of the owned GPU, and one for those of the rented one."""
    ways = (("tokens, own", found.own, found.told), ("tokens, rent", found.rent, found.rented_told))
    currency = answer.query.book.currency
    return [
        (name, currency.show(price.whole_usd_per_million), _parts(price, told, currency, verbose))
        for name, price, told in ways
        if price is not None
    ]


def _parts(price: TokenPrice, told: LanguagePrediction, currency: Currency, verbose: bool) -> str:
    asked = told.generation
    read, written = currency.show(price.input_usd_per_million), currency.show(price.output_usd_per_million)
    if not verbose:
        return f"per million output tokens, including their prompts; {asked.tokens_per_s:,.0f} tokens/s"
    users = "1 user" if asked.users == 1 else f"{asked.users:,} users"
    return (
        f"per million output tokens, including prompts of {asked.prompt:,} tokens for outputs of {asked.output:,} ({read} to "
        f"read a million tokens, {written} to write a million); {asked.tokens_per_s:,.0f} tokens/s for {users} on "
        f"{the(told.gpu.name)}, with {asked.weights} weights in {asked.engine}"
    )
