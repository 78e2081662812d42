"""Which GPUs are available today, and how: sold new, sold used, for rent. From the catalogue and prices; speed plays no part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from gpuwise.hardware.types import Gpu
from gpuwise.money.prices import PriceBook, price_now, rent_median, rent_offers
from gpuwise.money.types import Price, RentRange

__all__ = [
    "NEW_MONTHS",
    "Offered",
    "Wanted",
    "buy_kind",
    "buyable",
    "offered",
    "older",
    "price_for",
    "rentable",
    "served",
    "sold_new",
    "whole",
]

NEW_MONTHS = 30  # after launch a card counts as sold new, assumed: makers publish no last day of sale
_OLD_YEARS = 8  # after launch, used cards are too old to recommend
_ENOUGH_CLOUDS = 2  # the price of a single cloud is not a market price
_CARDS = ("desktop", "workstation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which GPUs are considered: vendor (empty: any), laptop or not, and the condition, one of `CONDITIONS`."""

    vendor: str = ""
    laptop: bool = False
    condition: str = "any"

    def accepts(self, gpu: Gpu) -> bool:
        """Whether vendor and segment match, at any price."""
        kinds = ("laptop",) if self.laptop else (*_CARDS, "soc")
        return gpu.segment in kinds and self.vendor.lower() in ("", gpu.vendor.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A GPU and how it is available: on sale to anyone, for rent, or neither."""

    gpu: Gpu
    price: Price | None
    rent: RentRange | None


def offered(gpus: Sequence[Gpu], book: PriceBook) -> list[Offered]:
    """How each of these is available. Data-centre modules and accelerators are only rented, even where a price is known."""
    rents = {gpu.name: rent for gpu, rent in rentable(gpus, "", book)}
    prices = {gpu.name: price_for(gpu, book) for gpu in gpus if gpu.segment in (*_CARDS, "laptop")}
    return [Offered(gpu=gpu, price=prices.get(gpu.name), rent=rents.get(gpu.name)) for gpu in gpus]


def _months(gpu: Gpu, today: date) -> float:
    return (today - gpu.launched_on).days / 30.44 if gpu.launched_on else float("inf")


def sold_new(gpu: Gpu, today: date) -> bool:
    """Whether it was launched recently enough that shops still sell it."""
    return _months(gpu, today) <= NEW_MONTHS


def served(gpu: Gpu) -> bool:
    """Whether current software runs on it."""
    return bool(gpu.architecture.first_software) and not gpu.architecture.last_software


def whole(gpu: Gpu) -> bool:
    """Whether it is only sold as a whole computer: a laptop, or a chip with CPU and memory."""
    return gpu.segment in ("laptop", "soc")


def buy_kind(gpu: Gpu, price: Price, today: date) -> str:
    """Bought new or used."""
    if price.kind in ("new", "used"):
        return f"buy {price.kind}"
    return "buy new" if sold_new(gpu, today) else "buy used"


def price_for(gpu: Gpu, book: PriceBook, condition: str = "any") -> Price | None:
    """The current price of a card. The launch price of a card that is no longer sold new does not count."""
    price = price_now(gpu, book, condition)
    return None if price is not None and price.kind == "launch" and not sold_new(gpu, book.today) else price


def buyable(gpus: Sequence[Gpu], wanted: Wanted, book: PriceBook) -> list[tuple[Gpu, Price | None]]:
    """GPUs on sale, with their price. Laptop GPUs come with a laptop: unless the user gives a price, it is unknown."""
    found = []
    for gpu in gpus:
        price = price_for(gpu, book, wanted.condition)
        offered = price is not None or (wanted.laptop and sold_new(gpu, book.today))
        used = price is not None and buy_kind(gpu, price, book.today) == "buy used"
        if wanted.accepts(gpu) and offered and not (used and wanted.condition == "new") and served(gpu):
            found.append((gpu, price))
    return found


def older(gpus: Sequence[Gpu], wanted: Wanted, book: PriceBook) -> list[Gpu]:
    """Cards sold only used, without a dated price: the price at which they are worth buying can still be computed."""
    return [
        gpu
        for gpu in gpus
        if gpu.segment == "desktop"
        and wanted.accepts(gpu)
        and served(gpu)
        and price_for(gpu, book) is None
        and NEW_MONTHS < _months(gpu, book.today) <= 12 * _OLD_YEARS
        and gpu.launch_usd is not None
    ]


def rentable(gpus: Sequence[Gpu], vendor: str, book: PriceBook) -> list[tuple[Gpu, RentRange]]:
    """GPUs for rent from more than one cloud, or from an offer the user gave, with their median price."""
    pairs = [(gpu, rent_median(gpu, book)) for gpu in gpus if vendor.lower() in ("", gpu.vendor.lower()) and gpu.segment != "tpu"]
    return [
        (gpu, offer) for gpu, offer in pairs if offer is not None and (len(offer.clouds) >= _ENOUGH_CLOUDS or _given(gpu, book))
    ]


def _given(gpu: Gpu, book: PriceBook) -> bool:
    return any(offer.kind == "given" for offer in rent_offers(gpu, book))
