"""Checks of numbers that people type: finite and of the right sign."""

from __future__ import annotations

import math
import re

from gpuwise.core.errors import BadValue

__all__ = ["amount", "fraction", "number"]

_THOUSANDS = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d*)?")
_MOST = 1e15  # above any price, energy or time that people ask about


def number(text: str, what: str, hint: str) -> float:
    """The number a text stands for. A comma sets off thousands; `700,50` could be either, and is refused.

    >>> number("$1,499", "a price", "")
    1499.0
    """
    plain = text.strip().lstrip("$")
    try:
        return float(plain.replace(",", "") if _THOUSANDS.fullmatch(plain) else plain)
    except ValueError:
        raise BadValue(f"{what} '{text}' is not a number", hint=hint) from None


def amount(value: float, what: str, hint: str, *, zero: bool = False) -> float:
    """A finite value above zero (or zero, where that makes sense)."""
    if not math.isfinite(value):
        raise BadValue(f"{what} of {value} is not a finite number", hint=hint)
    if value < 0 or (value == 0 and not zero):
        raise BadValue(
            f"{what} of {value:g} is not above zero" if value == 0 else f"{what} of {value:g} is below zero", hint=hint
        )
    if value > _MOST:
        raise BadValue(f"{what} of {value:g} is out of range", hint=hint)
    return value


def fraction(value: float, what: str, option: str, example: str) -> float:
    """A share in 0..1; 15 is taken for 15 % and refused with the way to write it."""
    if not math.isfinite(value) or value < 0:
        raise BadValue(f"{what} of {value:g} is not a share between 0 and 1", hint=f"for example `{option} {example}`")
    if value > 1:
        share = f"it is a share between 0 and 1, such as `{option} {example}`"
        percent = f"; for {value:g} % write `{option} {value / 100:g}`" if value <= 100 else ""
        raise BadValue(f"{what} of {value:g} is above 1", hint=share + percent)
    return value
