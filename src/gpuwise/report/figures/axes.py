"""Where values fall on an axis, and which of them are worth a tick."""

from __future__ import annotations

import math

from gpuwise.report.figures.types import Axis
from gpuwise.units import format_si

__all__ = ["place", "shown", "ticks"]

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def place(axis: Axis, value: float) -> float:
    """Where on the axis, from 0 to 1; values beyond its ends stay at the ends."""
    low, high = axis.low, axis.high
    if axis.log:
        low, high, value = math.log(low), math.log(high), math.log(max(value, axis.low))
    return min(1.0, max(0.0, (value - low) / ((high - low) or 1.0)))


def ticks(axis: Axis, count: int = 6) -> list[float]:
    """Round values along the axis: powers of ten on a log axis, else at most about `count`."""
    return _log_ticks(axis) if axis.log else _even_ticks(axis, count)


def _log_ticks(axis: Axis) -> list[float]:
    first, last = math.ceil(math.log10(axis.low) - 1e-9), math.floor(math.log10(axis.high) + 1e-9)
    tens = [10.0**power for power in range(first, last + 1)]
    if len(tens) > 2:
        return tens
    return [
        digit * 10.0**power for power in range(first - 1, last + 1) for digit in (1, 2, 5) if _inside(axis, digit * 10.0**power)
    ]


def _even_ticks(axis: Axis, count: int) -> list[float]:
    span = axis.high - axis.low
    rough = span / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in _STEPS if size * power >= rough * 0.999)
    first = math.ceil(axis.low / step - 1e-9)
    return [number * step for number in range(first, math.floor(axis.high / step + 1e-9) + 1)]


def _inside(axis: Axis, value: float) -> bool:
    return axis.low * (1 - 1e-9) <= value <= axis.high * (1 + 1e-9)


def shown(axis: Axis, value: float) -> str:
    """A value of this axis as text.

    >>> shown(Axis(title="", low=0, high=1, unit="%"), 0.25)
    '25 %'
    """
    if axis.unit == "%":
        return f"{100 * value:.0f} %"
    if not axis.unit:
        return f"{value:,.0f}" if abs(value) >= 1 else f"{value:g}"
    return "0" if value == 0 else format_si(value, axis.unit)
