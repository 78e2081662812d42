"""Text generation with its cost on a rented GPU."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from gpuwise.money.prices import PriceBook
from gpuwise.questions.common.language.answer import LanguageAnswer, LanguagePrediction
from gpuwise.questions.common.language.costs import RentedTokens, rented_tokens

__all__ = ["PricedText", "priced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedText(LanguageAnswer):
    """The same model on each GPU; `rents` has those that a cloud rents out."""

    TEXT: ClassVar[str] = "questions.predict.generation_text.render"

    rents: tuple[RentedTokens, ...]

    def to_dict(self) -> dict[str, Any]:
        """In the names of `predict`, with the rents beside them."""
        return {**LanguageAnswer.to_dict(self), "rents": [asdict(rent) for rent in self.rents]}


def priced(answer: LanguageAnswer) -> PricedText:
    """The answer with the cheapest rent of each GPU."""
    book = PriceBook.of()
    told = [rented_tokens(result, book) for result in answer.results if isinstance(result, LanguagePrediction)]
    held = {one.name: getattr(answer, one.name) for one in fields(answer)}
    return PricedText(**held, rents=tuple(rent for rent in told if rent is not None))
