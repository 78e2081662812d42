"""The options of `prices`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from gpuwise.questions.common.options import CurrencyRate, Names, Option, PriceFile, Prices

__all__ = ["PricesOptions"]

_NAMES = "GPU names, or `refresh` to fetch today's rental prices."


@dataclass(frozen=True, slots=True, kw_only=True)
class PricesOptions:
    """List purchase and rental prices for GPUs with their dates; `gpuwise prices refresh` fetches today's rental prices."""

    names: Annotated[Names, Option(help=_NAMES, argument=True, metavar="[GPU]...")] = field(default=(), kw_only=False)
    price: Prices = ()
    prices: PriceFile = None
    currency: CurrencyRate = ""
    regions: Annotated[bool, Option(help="Show electricity prices and carbon intensity by country instead.")] = False
