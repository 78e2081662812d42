"""What `fit` takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Optional

from gpuwise.questions.common.options import Option
from gpuwise.questions.common.step_options import StepOptions

__all__ = ["FitOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions(StepOptions):
    """Find out whether a model fits a GPU's memory, the largest batch, and what would make it fit, at what cost in time."""

    SURFACE: ClassVar[tuple[str, ...]] = ("figure", "strict")

    seq: Annotated[
        Optional[int], Option(help="Sequence length in tokens; in inference the length of a context.", low=1, high=2**31 - 1)
    ] = None
    all: Annotated[bool, Option(help="Every GPU of the catalogue instead of --gpu.", page=False)] = False
    display: Annotated[bool, Option(help="Count the memory of a desktop that runs on this GPU too.")] = False
    remedies: Annotated[
        bool, Option(help="Also evaluate ways to make it fit: checkpointing, LoRA, offload.", flag="--remedies/--no-remedies")
    ] = True
