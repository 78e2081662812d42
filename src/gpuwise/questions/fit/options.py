"""The options of `fit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Optional

from gpuwise.questions.common.language.options import LanguageOptions
from gpuwise.questions.common.options import DenoisingSteps, Option

__all__ = ["FitOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions(LanguageOptions):
    """Check whether a model fits in GPU memory, and show the largest batch and the remedies that would make it fit."""

    SURFACE: ClassVar[tuple[str, ...]] = ("figure", "strict")

    seq: Annotated[
        Optional[int], Option(help="The sequence length in tokens; for inference, the context length.", low=1, high=2**31 - 1)
    ] = None
    steps: DenoisingSteps = None
    all: Annotated[bool, Option(help="Check every GPU in the catalogue, not only those given with --gpu.", page=False)] = False
    display: Annotated[bool, Option(help="Reserve memory for a desktop display connected to this GPU.")] = False
    remedies: Annotated[
        bool, Option(help="Also try remedies that save memory: checkpointing, LoRA, offloading.", flag="--remedies/--no-remedies")
    ] = True
