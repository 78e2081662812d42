"""Isolates rows that cannot be predicted: if predicting many rows together fails, they are halved until the bad row is alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from gpuwise.core.errors import GpuwiseError
from gpuwise.evidence.types import Residual, Skipped

__all__ = ["answered", "comparable"]

_MOST = 1e9  # ratio beyond which a measurement must be a mistake
_FAULTS = (GpuwiseError, ArithmeticError, IndexError, KeyError, TypeError, ValueError)


class _Row(Protocol):
    @property
    def row(self) -> int: ...


Asked = TypeVar("Asked", bound=_Row)
Score = Callable[[Sequence[Asked], dict[int, str]], list[Residual]]


def answered(asked: Sequence[Asked], score: Score[Asked], reasons: Skipped) -> list[Residual]:
    """Return the answers to all questions that can be answered; the others are left out with their reasons."""
    refused: dict[int, str] = {}
    found = comparable(_halved(asked, score, refused), refused)
    done = {entry.row for entry in found}
    for question in asked:
        if question.row not in done:
            reasons.add(question.row, refused.get(question.row, "the step could not be predicted"))
    return sorted(found, key=lambda entry: entry.row)


def comparable(found: Sequence[Residual], refused: dict[int, str]) -> list[Residual]:
    """Return the rows whose two values have a representable ratio; reasons for the others go into `refused`."""
    kept = [entry for entry in found if entry.measured_s > 0 and 0 < entry.predicted_s / entry.measured_s < _MOST]
    lost = {entry.row for entry in found} - {entry.row for entry in kept}
    refused.update(dict.fromkeys(lost, "the measured value is out of range"))
    return kept


def _halved(asked: Sequence[Asked], score: Score[Asked], refused: dict[int, str]) -> list[Residual]:
    try:
        return score(asked, refused) if asked else []
    except _FAULTS as fault:
        if len(asked) == 1:
            refused[asked[0].row] = fault.message if isinstance(fault, GpuwiseError) else "the step could not be predicted"
            return []
    middle = len(asked) // 2
    return [*_halved(asked[:middle], score, refused), *_halved(asked[middle:], score, refused)]
