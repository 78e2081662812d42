"""Bodies of requests that no question declares: the page's chart of a model by batch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpuwise.questions.common.step_options import StepOptions
from gpuwise.surfaces.web.schema import body_of

__all__ = ["SweepBody"]

_Size = Annotated[int, Field(ge=1, le=2**31 - 1)]


class SweepBody(body_of(StepOptions)):  # type: ignore[misc]
    """How does throughput change with the batch size?"""

    batches: Annotated[list[_Size], Field(min_length=1, max_length=64)]
