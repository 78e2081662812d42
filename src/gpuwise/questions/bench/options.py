"""The options of `bench`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from gpuwise.questions.common.options import Option

__all__ = ["BenchOptions"]

_DEVICE = "The device: cpu, cuda:0 or mps (default: the fastest device that torch finds)."


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """Measure a device on this machine (matrix products, convolutions, bandwidth, overheads, disk, decoding) and save a profile.

    `gpuwise predict --on-this-machine` then uses this profile for its predictions.
    """

    device: Annotated[str, Option(help=_DEVICE, page=False)] = field(default="", kw_only=False)
    seconds: Annotated[float, Option(help="The time limit for the measurement, in seconds.", low=2, high=600, page=False)] = 60.0
