"""What a GPU costs to buy and to rent now: the user's price first, then the newest price that has a date and a source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from statistics import median

from gpuwise.hardware.types import Gpu
from gpuwise.money import age, refreshed, tables
from gpuwise.money.currency import USD, Currency, parse_currency
from gpuwise.money.price_file import PriceFile, parse_prices, read_price_file
from gpuwise.money.types import Offer, Price, RentRange

__all__ = ["CONDITIONS", "PriceBook", "data_date", "launch_price", "price_now", "rent_median", "rent_offers"]

# What a buyer takes: kinds of prices beside the user's own. A launch price is one of a new card.
CONDITIONS = {"any": ("new", "used", "launch"), "new": ("new", "launch"), "used": ("used",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceBook:
    """All prices that may be asked for: the user's own by GPU name, offers to rent, the currency of what is typed and shown."""

    given: Mapping[str, Price] = field(default_factory=dict)
    rents: Mapping[str, tuple[Offer, ...]] = field(default_factory=dict)
    currency: Currency = USD
    today: date

    @classmethod
    def of(
        cls, prices: Sequence[str] = (), file: Path | str | None = None, currency: str = "", today: date | None = None
    ) -> PriceBook:
        """The shipped (or refreshed) tables, a price file over them, and single prices over both."""
        now = today or age.today()
        money = parse_currency(currency)
        own = read_price_file(Path(file), now) if file else PriceFile()
        typed = parse_prices(prices, money, now)
        given = {price.gpu: price for price in (*own.prices, *typed)}
        return cls(given=given, rents=_with(own.offers), currency=money, today=now)


def _with(own: Sequence[Offer]) -> Mapping[str, tuple[Offer, ...]]:
    """Offers by GPU; where the user gave some for a GPU, only those."""
    mine: dict[str, list[Offer]] = defaultdict(list)
    for offer in own:
        mine[offer.gpu].append(offer)
    return {**_by_gpu(refreshed.offers()), **{gpu: tuple(found) for gpu, found in mine.items()}}


@cache
def _by_gpu(newer: tuple[Offer, ...]) -> Mapping[str, tuple[Offer, ...]]:
    """Shipped offers, those of clouds in the newer list replaced by it."""
    clouds = {offer.cloud for offer in newer}
    found: dict[str, list[Offer]] = defaultdict(list)
    for offer in (*newer, *(one for one in tables.offers() if one.cloud not in clouds)):
        found[offer.gpu].append(offer)
    return {gpu: tuple(sorted(rows, key=lambda offer: offer.usd_per_gpu_hour)) for gpu, rows in found.items()}


def launch_price(gpu: Gpu) -> Price | None:
    """Its launch price, for one device of a board."""
    if gpu.launch_usd is None or gpu.launched_on is None:
        return None
    fact = gpu.fact("launch_usd")
    usd = gpu.launch_usd / gpu.devices_per_board
    shared = f"one of {gpu.devices_per_board} GPUs of a board" if gpu.devices_per_board > 1 else ""
    return Price(
        gpu=gpu.name,
        kind="launch",
        usd=usd,
        low_usd=usd,
        high_usd=usd,
        dated=gpu.launched_on,
        source=fact.source.title,
        basis=fact.basis,
        note=shared,
    )


def price_now(gpu: Gpu, book: PriceBook, condition: str = "any") -> Price | None:
    """The price of a card now: the user's, else the newest that has a date and a source, in a condition of `CONDITIONS`.

    Its `kind` and date say which it is: of a shop (new), used, or the launch price. None where none is known.
    """
    if gpu.name in book.given:
        return book.given[gpu.name]
    launch = launch_price(gpu)
    every = [price for price in tables.market() if price.gpu == gpu.name] + ([launch] if launch else [])
    wanted = [price for price in every if price.kind in CONDITIONS[condition]]
    return max(wanted, key=lambda price: (price.dated, price.kind == "new"), default=None)


def rent_offers(gpu: Gpu, book: PriceBook) -> tuple[Offer, ...]:
    """Every offer for this GPU, cheapest first."""
    return book.rents.get(gpu.name, ())


def rent_median(gpu: Gpu, book: PriceBook) -> RentRange | None:
    """The median of what clouds charge. Auctions, and GPUs without a host machine, count only where there is nothing else."""
    every = rent_offers(gpu, book)
    plain = tuple(offer for offer in every if offer.kind != "auction" and offer.with_host)
    chosen = plain or every
    if not chosen:
        return None
    spots = [offer.spot_usd_per_gpu_hour for offer in chosen if offer.spot_usd_per_gpu_hour is not None]
    notes = dict.fromkeys(offer.note for offer in (() if plain else chosen) if offer.note)
    return RentRange(
        gpu=gpu.name,
        usd_per_gpu_hour=median(offer.usd_per_gpu_hour for offer in chosen),
        low_usd_per_gpu_hour=min(offer.usd_per_gpu_hour for offer in chosen),
        high_usd_per_gpu_hour=max(offer.usd_per_gpu_hour for offer in chosen),
        spot_usd_per_gpu_hour=median(spots) if spots else None,
        clouds=tuple(offer.cloud for offer in chosen),
        dated=sorted(offer.dated for offer in chosen)[len(chosen) // 2],
        note="; ".join(notes),
    )


def data_date(book: PriceBook) -> date:
    """The newest day of the rental tables in the book."""
    days = [offer.dated for offers in book.rents.values() for offer in offers if offer.kind != "given"]
    return max(days, default=book.today)
