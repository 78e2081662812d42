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
from gpuwise.questions.models.options import ModelsOptions
from gpuwise.workload.store import zoo

__all__ = ["ModelsAnswer", "answer", "models"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsAnswer(Shown):
    """Models of the zoo, by family."""

    TEXT: ClassVar[str] = "questions.models.text.render"

    search: str
    models: tuple[zoo.Entry, ...]
    data_date: date

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data."""
        return {
            "models": [
                {
                    "name": entry.name,
                    "title": entry.title,
                    "family": entry.family,
                    "aliases": list(entry.aliases),
                    "parameters": entry.parameters,
                    "batch": entry.batch,
                    "seq": entry.seq,
                    "image": entry.image,
                    "generates": _generates(entry),
                }
                for entry in self.models
            ],
            "assumptions": [],
            "data_date": self.data_date.isoformat(),
        }


def answer(options: ModelsOptions, progress: Callable[[str], None] = lambda text: None) -> ModelsAnswer:
    """All models, or those that match the search."""
    wanted = options.search.strip().lower()
    found = tuple(entry for entry in zoo.entries().values() if wanted in _searched(entry))
    if not found:
        near = ", ".join(zoo.close(options.search))
        hint = (
            f"did you mean {near}?"
            if near
            else "`gpuwise models` lists all included models; use `hf:ID` or `timm:NAME` for others"
        )
        raise UnknownName(f"no model matches '{options.search}'", looked_in=f"{len(zoo.entries())} included models", hint=hint)
    return ModelsAnswer(search=options.search, models=found, data_date=tables.data_date())


def _searched(entry: zoo.Entry) -> str:
    return " ".join((entry.name, entry.title, entry.family, *entry.aliases)).lower()


def _generates(entry: zoo.Entry) -> bool:
    """Whether it generates text, so that `--phase prefill` and `decode` apply."""
    return any(stored.phase for stored in entry.graphs)


models = face(ModelsOptions, answer)
