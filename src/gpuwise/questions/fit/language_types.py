"""The types of an answer about the memory of a model that generates text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from gpuwise.advise.language_remedies import LanguageRung
from gpuwise.questions.common.language.answer import Generated
from gpuwise.questions.fit.types import Fit, FitAnswer

__all__ = ["LanguageFit", "LanguageFitAnswer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageFit(Fit):
    """One model on one GPU or several of a kind. `batch`, `max_batch` and `safe_batch` count requests at once. `generation` is
    how it runs: with layers on the CPU if it does not fit but still runs (`survives`), otherwise as if there were room.
    `longest_context` is what each of the requests can have, up to `model_context`, which the model supports.
    """

    generation: Generated
    longest_context: int
    model_context: int

    @property
    def rungs(self) -> list[LanguageRung]:
        """Every remedy on its own."""
        return [rung for rung in self.advice.remedies if isinstance(rung, LanguageRung)]

    @property
    def climbed(self) -> list[LanguageRung]:
        """Remedies that together make the model fit."""
        return [rung for rung in self.advice.ladder if isinstance(rung, LanguageRung)]

    def to_dict(self) -> dict[str, Any]:
        """The keys of `fit`, with the values for text generation added."""
        found = Fit.to_dict(self)
        found["remedies"] = [_with_text(row, rung) for row, rung in zip(found["remedies"], self.rungs, strict=True)]
        found["ladder"] = [_with_text(row, rung) for row, rung in zip(found["ladder"], self.climbed, strict=True)]
        return found | {
            "tokens_per_s": self.generation.tokens_per_s,
            "longest_context": self.longest_context,
            "model_context": self.model_context,
            "users_fit": self.max_batch,
            "generation": self.generation.to_dict(),
        }


def _with_text(row: dict[str, Any], rung: LanguageRung) -> dict[str, Any]:
    return row | {
        "tokens_per_s": rung.tokens_per_s,
        "tokens_per_s_per_user": rung.tokens_per_s_per_user,
        "context": rung.context,
        "host_bytes": rung.host_bytes,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageFitAnswer(FitAnswer):
    """One result for each GPU, in the order requested."""

    TEXT: ClassVar[str] = "questions.fit.generation_text.render"
    FIGURE: ClassVar[str] = "questions.fit.language_figure.language_memory_figure"
