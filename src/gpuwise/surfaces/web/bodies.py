"""The body that each question takes over HTTP; one that no question declares is written here: the page's chart of a model by
batch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.registry import QUESTIONS as DECLARED
from gpuwise.surfaces.web.schema import Body, body_of

__all__ = ["SweepBody", "question_body"]

_Size = Annotated[int, Field(ge=1, le=2**31 - 1)]


class SweepBody(body_of(StepOptions)):  # type: ignore[misc]
    """How does throughput change with the batch size?"""

    batches: Annotated[list[_Size], Field(min_length=1, max_length=64)]


def question_body(name: str) -> type[Body]:
    """The body of this question."""
    return SweepBody if name == "sweep" else body_of(DECLARED[name].options)
