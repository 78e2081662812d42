"""The fitted constants of collectives and of several GPUs on one step, with what they were fitted on.

`tools/fit_collectives.py` and `tools/fit_scaling.py` write them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["Constants", "load_constants", "load_scaling"]

Constants = Mapping[str, Any]


@cache
def load_constants() -> Constants:
    """Of collectives, as the package ships them."""
    return _read("collectives.json")


@cache
def load_scaling() -> Constants:
    """Of steps on several GPUs: what a doubling costs without messages, and how much messages slow compute down."""
    return _read("scaling.json")


def _read(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((files("gpuwise.scale") / "data" / name).read_text(encoding="utf-8"))
    return loaded
