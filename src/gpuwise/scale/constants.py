"""The fitted constants of collectives, with what they were fitted on. `tools/fit_collectives.py` writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["Constants", "load_constants"]

Constants = Mapping[str, Any]


@cache
def load_constants() -> Constants:
    """What the package ships."""
    text = (files("gpuwise.scale") / "data" / "collectives.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
