"""The options of `validate`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Optional

from gpuwise.core.errors import BadValue
from gpuwise.questions.common.options import Option

__all__ = ["BREAKDOWNS", "ValidateLooks", "ValidateOptions"]

BREAKDOWNS = ("gpu", "model", "family", "source")
_HELD_OUT = "A .csv or .parquet file of measurements (default: the built-in measurements)."
_MEASURED = "Use this many rows for each source and model as your own measurements, to correct the other predictions."


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateLooks:
    """How the accuracy is shown."""

    by: Annotated[str, Option(help="Break the errors down by gpu, model, family or source.")] = "gpu"

    def __post_init__(self) -> None:
        if self.by not in BREAKDOWNS:
            raise BadValue(f"unknown breakdown '{self.by}'", known=", ".join(BREAKDOWNS), hint="try `--by gpu`")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions:
    """Compare predictions with published measurements, and show errors, GPU rankings, ranges and simple rules of thumb."""

    SURFACE: ClassVar[tuple[str, ...]] = ("figure",)
    LOOKS: ClassVar[type] = ValidateLooks

    held_out: Annotated[Optional[Path], Option(help=_HELD_OUT, page=False)] = field(default=None, kw_only=False)
    measured_rows: Annotated[int, Option(help=_MEASURED, low=0)] = 0
