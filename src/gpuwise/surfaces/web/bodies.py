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
    "BuildBody",
    "CostBody",
    "GpusBody",
    "RunBody",
    "SweepBody",
    "WhichBody",
]

Name = Annotated[str, Field(max_length=200)]
Names = Annotated[list[Name], Field(max_length=16)]
Count = Annotated[int, Field(ge=1, le=4096)]
Size = Annotated[int, Field(ge=1, le=2**31 - 1)]
Batch = Annotated[str, Field(max_length=12)]
Samples = Annotated[float, Field(gt=0, le=1e18, allow_inf_nan=False)]
Years = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]
Money = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


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


class WhichBody(RunBody):
    """What to buy, rent or keep?"""

    model: Names = []
    task: Name = ""
    budget: Annotated[float, Field(le=1e12, allow_inf_nan=False)] | None = None
    have: Names = []
    hours_per_week: Annotated[float, Field(ge=0, le=168, allow_inf_nan=False)] | None = None
    years: Years | None = None
    kwh_price: Money | None = None
    tariff: Name = ""
    region: Name = ""
    price: Names = []
    currency: Name = ""
    buy: bool = False
    used: bool = False
    rent: bool = False
    vendor: Name = ""
    laptop: bool = False
    deadline: Name = ""
    samples: Samples | None = None
    max_gpus: Annotated[int, Field(ge=1, le=8)] = 4
    psu: Money | None = None
    machine: Money | None = None
    machine_watts: Money | None = None
    optimizer: Name = ""
    stack: Name = ""


class CostBody(Body):
    """Own or rent?"""

    gpu: Name
    gpus: Count = 1
    price: Name = ""
    used: bool = False
    new: bool = False
    machine: Money | None = None
    machine_watts: Money | None = None
    watts: Money | None = None
    utilization: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    hours_per_week: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    years: Years | None = None
    kwh_price: Money | None = None
    tariff: Name = ""
    bills: Name = ""
    household_kwh: Money | None = None
    region: Name = ""
    resale: Money = 0.0
    cloud_price: Money | None = None
    cloud: Name = ""
    cloud_gpu: Name = ""
    spot: bool = False
    commit: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    job_hours: Money | None = None
    model: Name = ""
    samples: Samples | None = None
    epochs: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] | None = None
    batch: Batch = ""
    precision: Name = ""
    currency: Name = ""


class BuildBody(Body):
    """Will these GPUs work in that machine?"""

    gpu: Annotated[list[Name], Field(max_length=16)]
    psu: Name = ""
    psu_standard: int | None = None
    cpu: Name = ""
    cpu_watts: Money | None = None
    board: Name = ""
    case_slots: Annotated[int, Field(ge=1, le=1000)] | None = None
    lanes: Name = ""
    chipset_link: Name = ""
    riser: Name = ""
    nvme: Annotated[int, Field(ge=0, le=1000)] | None = None
    cooler: Name = ""
    ram: Name = ""
    outlet: Name = ""
    room: Name = ""
    power_limit: Name = ""


class GpusBody(Body):
    """What is known of GPUs?"""

    names: Annotated[list[Name], Field(max_length=64)] = []
    arch: Name = ""
    vendor: Name = ""
