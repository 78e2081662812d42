"""The options of `models`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from gpuwise.questions.common.options import Option

__all__ = ["ModelsOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsOptions:
    """List the included models with their sizes and usual batch sizes. They work without any framework installed."""

    search: Annotated[str, Option(help="List only models with this text in their name, title or family.", argument=True)] = field(
        default="", kw_only=False
    )
