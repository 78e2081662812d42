"""The options of `doctor`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Optional

from gpuwise.questions.common.options import Option

__all__ = ["DoctorOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """Show what is installed on this machine: Python, frameworks, drivers, and GPUs with their catalogue entries."""

    catalog: Annotated[Optional[Path], Option(help="A TOML file that describes your own GPUs.", page=False)] = field(
        default=None, kw_only=False
    )
