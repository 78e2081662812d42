"""Refuses out-of-range options for generating text, for every question that has them."""

from __future__ import annotations

from dataclasses import fields

from gpuwise.core.errors import BadValue
from gpuwise.questions.common.language.options import LanguageOptions
from gpuwise.questions.common.options import declared

__all__ = ["check_text_bounds"]

_TEXT = tuple(
    one for one in declared(LanguageOptions) if one.kind == "whole" and one.name in ("users", "prompt", "output", "context")
)


def check_text_bounds(options: object) -> None:
    """Refuse a number of users or tokens that no serving can have: zero must not count as "not given"."""
    held = {one.name for one in fields(options)}  # type: ignore[arg-type]
    for one in _TEXT:
        value = getattr(options, one.name) if one.name in held else None
        if not isinstance(value, int):
            continue
        low, high = int(one.option.low or 0), int(one.option.high or 0)
        if not low <= value <= high:
            raise BadValue(f"invalid --{one.name} {value:,}", hint=f"give a number between {low} and {high:,}")
