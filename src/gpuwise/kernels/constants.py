"""The fitted constants of the kernel models. `tools/fit` writes them; nothing is fitted at run time."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from gpuwise.kernels.types import Constants

__all__ = ["load_constants"]


class _File(msgspec.Struct):
    version: int
    fitted_on: list[str]
    constants: dict[str, float]


@cache
def load_constants() -> Constants:
    """Every constant by name."""
    data = (files("gpuwise.kernels") / "data" / "constants.json").read_bytes()
    return msgspec.json.decode(data, type=_File).constants
