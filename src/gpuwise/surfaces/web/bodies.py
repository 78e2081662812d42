"""What each question takes over HTTP: the names of the command line's options, with their types and bounds.

Left out on purpose: everything that names a file or code of the user. A request must not make the server read or run either.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpuwise.questions.common.step_options import StepOptions
from gpuwise.surfaces.web.schema import Body, body_of

__all__ = [
    "Body",
    "CompareBody",
    "MattersBody",
    "PlanBody",
    "RunBody",
    "SweepBody",
]

Name = Annotated[str, Field(max_length=200)]
Names = Annotated[list[Name], Field(max_length=16)]
Count = Annotated[int, Field(ge=1, le=4096)]
Size = Annotated[int, Field(ge=1, le=2**31 - 1)]
Batch = Annotated[str, Field(max_length=12)]


class RunBody(Body):
    """How a model is run, whichever it is."""

    batch: Batch = ""
    seq: Size | None = None
    image: Size | None = None
    precision: Name = ""
    mode: Name = ""
    phase: Name = ""
    cpu: Name = ""


class SweepBody(body_of(StepOptions)):  # type: ignore[misc]
    """How does throughput grow with the batch?"""

    batches: Annotated[list[Size], Field(min_length=1, max_length=64)]


class CompareBody(Body):
    """Card A or card B?"""

    names: Annotated[list[Name], Field(min_length=1, max_length=8)]
    models: Names = []
    mode: Name = ""
    precision: Name = ""
    batch: Batch = ""
    stack: Name = ""
    cpu: Name = ""
    price: Names = []
    currency: Name = ""


class MattersBody(RunBody):
    """Does it matter?"""

    topic: Name = ""
    model: Name = ""
    gpu: Name = ""
    gpus: Annotated[int, Field(ge=2, le=8)] = 2


class PlanBody(Body):
    """Do more GPUs help, and how is the work divided?"""

    model: Name
    cluster: Name
    network: Name = ""
    link: Name = ""
    batch: Size | None = None
    seq: Size | None = None
    image: Size | None = None
    precision: Name = ""
    optimizer: Name = ""
    compiled: bool = Field(default=False, alias="compile")
    data: Count | None = None
    tensor: Count | None = None
    pipeline: Count | None = None
    sequence: Count | None = None
    expert: Count | None = None
    micro_batch: Size | None = None
    zero_stage: Annotated[int, Field(ge=0, le=3)] | None = None
    recompute: Name = ""
    offload: bool = False
    scaling: bool = True
