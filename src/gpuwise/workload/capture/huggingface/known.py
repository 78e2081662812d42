"""The built-in table of Hugging Face models: the hyperparameters of well-known ones, for machines without their config.json."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from gpuwise.hardware.tables import parse_toml

__all__ = ["known_parameters", "known_row", "table"]

_OURS = frozenset(("like", "repo", "parameters", "null"))  # keys that a config.json does not have


@cache
def table() -> Mapping[str, Mapping[str, Any]]:
    """Return the rows of the built-in table as written, by id."""
    return parse_toml((files("gpuwise.workload") / "data" / "hf_configs.toml").read_text(encoding="utf-8"))


def known_row(name: str) -> dict[str, Any]:
    """Return the full configuration in a row, without our own keys."""
    found = table()[name]
    base = known_row(found["like"]) if "like" in found else {}
    empty = dict.fromkeys(found.get("null", ()))
    return base | {key: value for key, value in found.items() if key not in _OURS} | empty


def known_parameters() -> dict[str, int]:
    """Return the published parameter count of every model in the table."""
    return {name: int(row["parameters"]) for name, row in table().items()}
