"""What `models` takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from gpuwise.questions.common.options import Option

__all__ = ["ModelsOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsOptions:
    """List the included models with their size and usual batch; they need no framework to be installed."""

    search: Annotated[str, Option(help="List only models whose name, title or family contains this text.", argument=True)] = (
        field(default="", kw_only=False)
    )
