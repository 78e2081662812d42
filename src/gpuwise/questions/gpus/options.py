"""The options of `gpus`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Optional

from gpuwise.questions.common.options import Names, Option

__all__ = ["GpusLooks", "GpusOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpusLooks:
    """How a listing is shown."""

    all: Annotated[bool, Option(help="Also list less-common GPUs.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GpusOptions:
    """List GPUs. With one name, show its fact sheet and sources; with several names, compare the GPUs side by side."""

    LOOKS: ClassVar[type] = GpusLooks

    names: Annotated[Names, Option(help="GPU names or custom specs.", argument=True, metavar="[NAME]...", most=64)] = field(
        default=(), kw_only=False
    )
    arch: Annotated[str, Option(help="Show only this architecture, such as ada or ampere.")] = ""
    vendor: Annotated[str, Option(help="Show only this vendor, such as NVIDIA or AMD.")] = ""
    min_memory: Annotated[str, Option(help="Show only GPUs with at least this much memory, such as 24GB.", page=False)] = ""
    year: Annotated[str, Option(help="Show only GPUs launched in these years: 2022, 2020-2023 or 2020-.", page=False)] = ""
    sort: Annotated[str, Option(help="Sort by name, memory, bandwidth, fp32, fp16, tdp, year or price.", page=False)] = ""
    catalog: Annotated[Optional[Path], Option(help="A TOML file that describes your own GPUs.", page=False)] = None
