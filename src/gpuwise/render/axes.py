"""Positions values on an axis, chooses the ticks and formats their labels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpuwise.core.units import format_si
from gpuwise.render.chart import Axis

__all__ = ["labels", "place", "ticks"]

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_CLOCK = ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min"))
# Steps that are round on a clock, in seconds: of seconds, minutes and hours; days are counted in tens again.
_CLOCK_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200)
# The same for an axis of powers: few where they must do for many, else more.
_CLOCK_FEW = (1, 10, 60, 600, 3_600, 36_000)
_CLOCK_MANY = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 18_000, 36_000)
_DAY_S = 86_400.0
_FEWEST = 3  # powers of ten on an axis; with fewer, digits between them are marked too
_MOST_DIGITS = 9


def place(axis: Axis, value: float) -> float:
    """Return the position on the axis, from 0 to 1; values beyond its ends stay at the ends."""
    low, high = axis.low, axis.high
    if axis.log:
        low, high, value = math.log(low), math.log(high), math.log(max(value, axis.low))
    return min(1.0, max(0.0, (value - low) / ((high - low) or 1.0)))


def ticks(axis: Axis, count: int = 6) -> list[float]:
    """Return round values along the axis: powers of ten on a log axis, otherwise at most about `count`. Times are round on a
    clock.
    """
    return _log_ticks(axis) if axis.log else _even_ticks(axis, count)


def labels(axis: Axis, values: Sequence[float]) -> list[str]:
    """Return the texts for an axis' ticks, with as many digits as their step needs.

    >>> labels(Axis(title="", low=0, high=2), [0.5, 1.0, 1.5])
    ['0.5', '1.0', '1.5']
    >>> labels(Axis(title="", low=0, high=1, unit="%"), [0.25, 0.5])
    ['25%', '50%']
    """
    if axis.unit == "%":
        return [f"{text}%" for text in _plain([100 * value for value in values], even=not axis.log)]
    if not axis.unit:
        return _plain(values, even=not axis.log)
    exact = [_quantity(value, axis.unit, _MOST_DIGITS) for value in values]
    tried = ([_quantity(value, axis.unit, digits) for value in values] for digits in range(3, _MOST_DIGITS))
    return next((texts for texts in tried if texts == exact), exact)


def _log_ticks(axis: Axis) -> list[float]:
    few, many = _powers(axis.low, axis.high, (1,)), _powers(axis.low, axis.high, (1, 2, 5))
    if axis.unit == "s" and axis.high >= _CLOCK[-1][0]:
        few, many = _on_a_clock(axis, (1,), _CLOCK_FEW), _on_a_clock(axis, (1, 2, 5), _CLOCK_MANY)
    found = [value for value in few if _inside(axis, value)]
    return found if len(found) >= _FEWEST else [value for value in many if _inside(axis, value)]


def _powers(low: float, high: float, digits: Sequence[int]) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [digit * 10.0**power for power in range(first, last + 1) for digit in digits]


def _on_a_clock(axis: Axis, digits: Sequence[int], clock: Sequence[float]) -> list[float]:
    """Fractions of a second and days are counted in tens, everything between in seconds, minutes and hours."""
    parts = [value for value in _powers(min(axis.low, 1.0), 1.0, digits) if value < 1.0]
    return [*parts, *clock, *(_DAY_S * days for days in _powers(1.0, max(axis.high / _DAY_S, 1.0), digits))]


def _even_ticks(axis: Axis, count: int) -> list[float]:
    step = _step(axis, (axis.high - axis.low) / count)
    first = math.ceil(axis.low / step - 1e-9)
    return [number * step for number in range(first, math.floor(axis.high / step + 1e-9) + 1)]


def _step(axis: Axis, rough: float) -> float:
    """Return the next round step that is no smaller."""
    if axis.unit == "s" and rough > 1.0:
        clock = next((float(step) for step in _CLOCK_STEPS if step >= rough * 0.999), None)
        return clock or _DAY_S * _decimal_step(max(1.0, rough / _DAY_S))
    return _decimal_step(rough)


def _decimal_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(size * power for size in _STEPS if size * power >= rough * 0.999)


def _inside(axis: Axis, value: float) -> bool:
    return axis.low * (1 - 1e-9) <= value <= axis.high * (1 + 1e-9)


def _plain(values: Sequence[float], *, even: bool) -> list[str]:
    """Format numbers without a unit; evenly spaced ones all have as many decimals as the one that needs most."""
    needed = [_decimals(value) for value in values]
    most = max(needed, default=0)
    return [f"{value:,.{most if even and value else each}f}" for value, each in zip(values, needed, strict=True)]


def _decimals(value: float) -> int:
    """How many digits a value needs that is round except for the last bits of a float."""
    digits = f"{value:.{_MOST_DIGITS}g}"
    shown = f"{float(digits):.{_MOST_DIGITS + 3}f}".rstrip("0")
    return len(shown.partition(".")[2])


def _quantity(value: float, unit: str, digits: int) -> str:
    if value == 0:
        return "0"
    for size, name in _CLOCK if unit == "s" else ():
        if value >= size * (1 - 1e-9):
            text = f"{value / size:.{digits}g}"
            return f"{text} {'day' if name == 'days' and text == '1' else name}"
    return format_si(value, unit, digits)
