"""Which models are included and can be used by name?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar

from gpuwise.core.errors import UnknownName
from gpuwise.hardware import tables
from gpuwise.questions.common.options import Shown
from gpuwise.questions.face import face
from gpuwise.questions.models.listing import Listed, listed_models
from gpuwise.questions.models.options import ModelsOptions
from gpuwise.workload.store import zoo

__all__ = ["ModelsAnswer", "answer", "models"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsAnswer(Shown):
    """Models by family."""

    TEXT: ClassVar[str] = "questions.models.text.render"

    search: str
    models: tuple[Listed, ...]
    data_date: date

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data."""
        return {
            "models": [
                {
                    "name": model.name,
                    "title": model.title,
                    "family": model.family,
                    "aliases": list(model.aliases),
                    "parameters": model.parameters,
                    "batch": model.batch,
                    "seq": model.seq,
                    "image": model.image,
                    "trains": model.trains,
                    "generates": model.generates,
                }
                for model in self.models
            ],
            "assumptions": [],
            "data_date": self.data_date.isoformat(),
        }


def answer(options: ModelsOptions, progress: Callable[[str], None] = lambda text: None) -> ModelsAnswer:
    """All models, or those that match the search."""
    wanted = options.search.strip().lower()
    every = listed_models()
    found = tuple(model for model in every if wanted in _searched(model))
    if not found:
        near = ", ".join(zoo.close(options.search))
        hint = (
            f"did you mean {near}?"
            if near
            else "`gpuwise models` lists all included models; use `hf:ID` or `timm:NAME` for others"
        )
        raise UnknownName(f"no model matches '{options.search}'", looked_in=f"{len(every)} included models", hint=hint)
    return ModelsAnswer(search=options.search, models=found, data_date=tables.data_date())


def _searched(model: Listed) -> str:
    return " ".join((model.name, model.title, model.family, *model.aliases)).lower()


models = face(ModelsOptions, answer)
