"""Estimates the price of a card if no recent price was published, and its resale value.

    price / launch price = exp(kind + loss x age + memory + time + vendor + segment + this card's own deviation)

A gaming laptop has no launch price, so its price depends on the number of multiprocessors in its GPU.

`tools/fit_prices.py` fits the constants to the dated prices in `market.csv` and tests them on cards that were left out; the range
holds eight of ten of those.
"""

from __future__ import annotations

import math
from datetime import date
from functools import cache
from importlib.resources import files

import msgspec

from gpuwise.core.provenance import Basis
from gpuwise.core.units import GIB
from gpuwise.hardware.types import Gpu
from gpuwise.money.types import Price

__all__ = [
    "LAPTOP_UNITS",
    "LaptopModel",
    "PriceModel",
    "describe",
    "estimate",
    "is_gaming_laptop",
    "load_model",
    "remaining",
    "worth_used",
    "years_since",
]

_OLDEST = date(2016, 5, 1)  # Pascal; older cards are hardly traded, and current software does not run on them
_SELLING = 0.10  # share of the price that goes to the marketplace and shipping, assumed
LAPTOP_UNITS = 36  # multiprocessors of a mid-range laptop GPU, at which the laptop's price is stated
_MOST = 1.0  # share of the purchase price: no profit is assumed


class LaptopModel(msgspec.Struct, frozen=True):
    """The price of a laptop by the number of multiprocessors in its GPU: the price in USD at 36 of them, and the exponent of the
    number.
    """

    rows: int
    usd: float
    power: float
    low: float
    high: float


class PriceModel(msgspec.Struct, frozen=True):
    """The constants, all for the logarithm of price over launch price; `cards` are deviations of individual cards."""

    fitted_to: date
    rows: int
    cards_fitted: int
    new: float
    used: float
    new_per_year: float
    used_per_year: float
    memory: float
    time_per_year: float
    vendors: dict[str, float]
    segments: dict[str, float]
    cards: dict[str, float]
    low: float
    high: float
    laptops: LaptopModel


@cache
def load_model() -> PriceModel:
    """Return the fitted constants."""
    return msgspec.json.decode((files("gpuwise.money") / "data" / "price_model.json").read_bytes(), type=PriceModel)


def years_since(launched: date, day: date) -> float:
    """Return the age of a card."""
    return (day - launched).days / 365.25


def describe(gpu: Gpu, kind: str, day: date, fitted_to: date) -> dict[str, float]:
    """Return the variables behind the logarithm of price over launch price, by the names of their constants."""
    age = 0.0 if gpu.launched_on is None else years_since(gpu.launched_on, day)
    return {
        kind: 1.0,
        f"{kind}_per_year": age,
        "memory": math.log(gpu.memory_bytes / (12 * GIB)),
        "time_per_year": years_since(fitted_to, day),
        f"vendor {gpu.vendor}": 1.0,
        f"segment {gpu.segment}": 1.0,
    }


def estimate(gpu: Gpu, kind: str) -> Price | None:
    """Estimate the price of a new or used card on the day of the newest prices; None without a launch price."""
    model = load_model()
    if is_gaming_laptop(gpu) and kind == "new":
        return _laptop(gpu, model.laptops)
    if gpu.launch_usd is None or gpu.launched_on is None or gpu.launched_on < _OLDEST:
        return None
    if gpu.segment not in model.segments or gpu.vendor not in model.vendors:
        return None
    constants = {
        **{name: getattr(model, name) for name in ("new", "used", "new_per_year", "used_per_year", "memory", "time_per_year")},
        **{f"vendor {name}": value for name, value in model.vendors.items()},
        **{f"segment {name}": value for name, value in model.segments.items()},
    }
    share = sum(constants[name] * value for name, value in describe(gpu, kind, model.fitted_to, model.fitted_to).items())
    usd = gpu.launch_usd / gpu.devices_per_board * math.exp(share + model.cards.get(gpu.name, 0.0))
    source = f"estimated from its launch price, age and memory, based on {model.rows} prices of {model.cards_fitted} cards"
    return _estimated(gpu, kind, usd, (model.low, model.high), source)


def _estimated(gpu: Gpu, kind: str, usd: float, ends: tuple[float, float], source: str, note: str = "") -> Price:
    """Return the estimate as a price, with `ends` as shares of it, on the day of the newest prices."""
    low, high = ends
    return Price(
        gpu=gpu.name,
        kind=kind,
        usd=_rounded(usd),
        low_usd=_rounded(usd * low),
        high_usd=_rounded(usd * high),
        dated=load_model().fitted_to,
        source=source,
        basis=Basis.FITTED,
        note=note,
        estimated=True,
    )


def is_gaming_laptop(gpu: Gpu) -> bool:
    """Return whether laptops with this GPU have a typical price; that of workstation laptops depends on their maker."""
    return gpu.segment == "laptop" and " Laptop" in gpu.name


def _laptop(gpu: Gpu, laptops: LaptopModel) -> Price:
    usd = laptops.usd * math.pow(gpu.sm_count / LAPTOP_UNITS, laptops.power)
    source = f"estimated from the size of the GPU, based on {laptops.rows} laptop prices"
    return _estimated(gpu, "new", usd, (laptops.low, laptops.high), source, "a whole laptop")


def _rounded(usd: float) -> float:
    """Round to two significant digits, so that an estimate looks like one; three from $1,000 on."""
    digits = 1 if usd < 1000 else 2
    return round(usd, digits - math.floor(math.log10(usd)))


def worth_used(years: float) -> float:
    """Return the value of something used, at this age, as a share of its price when new."""
    model = load_model()
    return math.exp(model.used - model.new + model.used_per_year * years)


def remaining(years: float, *, new: bool) -> float:
    """Return the share of its price that a card resells for after these years, after the cost of selling it."""
    return min(_MOST, worth_used(years) if new else math.exp(load_model().used_per_year * years)) * (1 - _SELLING)
