"""The types of the answer of `matters`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, ClassVar

from gpuwise.core.provenance import Assumption, as_dicts
from gpuwise.questions.common.options import Shown

__all__ = ["Matter", "MattersAnswer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matter:
    """The answer to one topic. `value` is in `unit`, with `low` and `high` as its range if it has one; `together` is the value
    for `gpu_count` GPUs that share one job; `unless` says when the answer does not apply.
    """

    topic: str
    question: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None
    together: float | None = None
    gpu_count: int = 1
    answer: str
    how: str
    source: str
    unless: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MattersAnswer(Shown):
    """One topic or all, for one case."""

    TEXT: ClassVar[str] = "questions.matters.text.render"

    case: str
    topics: tuple[Matter, ...]
    assumptions: tuple[Assumption, ...]
    data_date: date

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of the JSON contract."""
        return {
            "case": self.case,
            "topics": [asdict(topic) for topic in self.topics],
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }
