"""What renting costs, and after how many days a bought machine has paid for itself.

break-even = upfront / (24 h x utilisation x (rent - electricity, per hour of work))
"""

from __future__ import annotations

from gpuwise.money.checks import amount, fraction
from gpuwise.money.types import HOURS_PER_YEAR, Rental

__all__ = ["break_even_days", "break_even_utilization", "rent"]


def rent(
    usd_per_gpu_hour: float,
    hours: float,
    *,
    gpu_count: int = 1,
    way: str = "on-demand",
    discount: float = 0.0,
    years: float = 0.0,
) -> Rental:
    """What these hours of work cost. A commitment (`way`) pays every hour of `years`, at a discount, used or not."""
    amount(usd_per_gpu_hour, "a rent", "for example `--cloud-price 2.14`")
    amount(hours, "hours of work", "for example `--hours-per-week 20`", zero=True)
    fraction(discount, "a discount", "--commit", "0.4")
    paid = HOURS_PER_YEAR * years if way == "commitment" else hours
    return Rental(
        way=way,
        gpu_count=gpu_count,
        usd_per_gpu_hour=usd_per_gpu_hour * (1 - discount),
        hours_used=hours,
        hours_paid=paid,
    )


def break_even_days(
    upfront_usd: float, rent_usd_per_hour: float, utilization: float, electricity_usd_per_hour: float = 0.0
) -> float | None:
    """Days after which renting has cost as much as buying and running; None where it never does.

    >>> round(break_even_days(2200, 2.14, 0.15, 0.450 * 0.12))
    293
    """
    saved_usd_per_day = 24.0 * utilization * (rent_usd_per_hour - electricity_usd_per_hour)
    return upfront_usd / saved_usd_per_day if saved_usd_per_day > 0 else None


def break_even_utilization(
    upfront_usd: float, rent_usd_per_hour: float, years: float, electricity_usd_per_hour: float = 0.0
) -> float | None:
    """The utilisation at which both cost the same after these years; None where even non-stop work does not reach it."""
    saved_usd = HOURS_PER_YEAR * years * (rent_usd_per_hour - electricity_usd_per_hour)
    return upfront_usd / saved_usd if saved_usd >= max(upfront_usd, 1e-12) else None
