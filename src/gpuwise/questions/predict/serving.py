"""A language model serving more and more users: how throughput and waiting times grow, how many users a service level allows,
and what would allow more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gpuwise.hardware import tables
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.generation import Generations, curve, most_users
from gpuwise.questions.common.language.answer import LanguageAnswer, LanguagePrediction, placed, predicted
from gpuwise.questions.common.language.ask import LanguageQuery
from gpuwise.questions.predict.service import MOST_POINTS, MOST_USERS, ServiceLevel
from gpuwise.questions.predict.what_ifs import WhatIf, what_ifs

__all__ = ["ServingAnswer", "Within", "largest_within", "points_of", "predict_serving"]

_USUAL_MOST = 256  # users at the end of a curve that names none: what servers usually take at once
_LIMITS = {"token": "the time per token", "first_token": "the time to the first token", "memory": "memory"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """The largest number of users that a service level and memory allow, with what they notice; 0 if not even one is allowed.
    `limit` is what stops the next user: token, first_token or memory.
    """

    gpu: str
    users: int
    limit: str
    tokens_per_s: float | None = None
    time_per_token_s: float | None = None
    time_to_first_token_s: float | None = None

    @property
    def limited_by(self) -> str:
        """The limit in words."""
        return _LIMITS[self.limit]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingAnswer(LanguageAnswer):
    """Every number of users on every GPU, by GPU and then users."""

    TEXT: ClassVar[str] = "questions.predict.serving_text.render"
    FIGURE: ClassVar[str] = "questions.predict.serving_figure.serving_figure"

    level: ServiceLevel
    within: tuple[Within, ...]
    what_ifs: tuple[WhatIf, ...]

    @property
    def points(self) -> tuple[LanguagePrediction, ...]:
        """The results with their own type."""
        return tuple(result for result in self.results if isinstance(result, LanguagePrediction))

    def to_dict(self) -> dict[str, Any]:
        """In the names of `predict`, with the service level beside them."""
        return {
            **LanguageAnswer.to_dict(self),
            "level": asdict(self.level),
            "within": [asdict(one) for one in self.within],
            "what_ifs": [asdict(one) for one in self.what_ifs],
        }


def predict_serving(query: LanguageQuery, users: Sequence[int], level: ServiceLevel, cached: float | None) -> ServingAnswer:
    """Predict the curve of each GPU at these numbers of users or, by default, up to as many as fit in memory."""
    numbers = tuple(users) or _usual_users(query)
    results: list[LanguagePrediction] = []
    ideas: list[WhatIf] = []
    for gpu in query.gpus:
        points = points_of(query, gpu, numbers)
        told = [predicted(query, point, gpu) for point in points]
        results += told
        able = [point for point, one in zip(points, told, strict=True) if one.fits and not point.serving.offloaded]
        ideas += what_ifs(able, gpu, cached) if able else []
    return ServingAnswer(
        model=query.serving.shape.name if query.model.endswith((".json", ".gguf")) else query.model,
        results=tuple(results),
        assumptions=query.assumptions,
        notes=(),
        data_date=tables.data_date(),
        level=level,
        within=tuple(largest_within(query, gpu, level) for gpu in query.gpus) if level.is_set else (),
        what_ifs=tuple(ideas),
    )


def points_of(query: LanguageQuery, gpu: Gpu, users: Sequence[int]) -> list[Generations]:
    """Predict the serving at each number of users as it runs on this GPU, all at once."""
    return [replace(point, serving=placed(point.serving, gpu)) for point in curve(query.serving, [gpu], users, by_kind=True)]


def _usual_users(query: LanguageQuery) -> tuple[int, ...]:
    """By doubling, up to what the GPU with the most memory holds."""
    last = min(_USUAL_MOST, max(1, *(most_users(query.serving, gpu) for gpu in query.gpus)))
    return tuple(sorted({*(2**power for power in range(last.bit_length())), last}))


# ---------------------------------------------------------------- within a service level


def largest_within(query: LanguageQuery, gpu: Gpu, level: ServiceLevel) -> Within:
    """Return the largest number of users, found by predicting many at once between an allowed and a disallowed number."""
    room = min(MOST_USERS, most_users(query.serving, gpu))
    if not room and placed(replace(query.serving, users=1), gpu).offloaded:
        room = 1  # with layers on the CPU
    held: Generations | None = None
    low, high, limit = 0, room + 1, "memory"
    while high - low > 1:
        tried = np.unique(np.geomspace(low + 1, high - 1, MOST_POINTS).round().astype(int)).tolist()
        for point in points_of(query, gpu, tried):
            crossed = _crossed(point, level)
            if crossed:
                high, limit = point.serving.users, crossed
                break
            low, held = point.serving.users, point
    if held is None:
        return Within(gpu=gpu.name, users=0, limit=limit)
    return Within(
        gpu=gpu.name,
        users=low,
        limit=limit,
        tokens_per_s=float(held.tokens_per_s[0]),
        time_per_token_s=float(held.token_s[0]),
        time_to_first_token_s=float(held.first_token_s[0]),
    )


def _crossed(point: Generations, level: ServiceLevel) -> str:
    """Return the limit that this point exceeds, if any."""
    if level.token_s is not None and point.token_s[0] > level.token_s:
        return "token"
    if level.first_token_s is not None and point.first_token_s[0] > level.first_token_s:
        return "first_token"
    return ""
