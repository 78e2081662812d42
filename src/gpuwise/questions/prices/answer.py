"""What do GPUs cost, and how old are the prices?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, ClassVar

from gpuwise.core.provenance import Assumption, as_dicts
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.money import prices as money_prices
from gpuwise.money import tables
from gpuwise.money.prices import PriceBook, data_date, price_now, rent_median, rent_offers
from gpuwise.money.refresh import Refreshed, refresh
from gpuwise.money.types import Offer, Price, Region, RentRange, Trend
from gpuwise.questions.common.options import Shown
from gpuwise.questions.face import face
from gpuwise.questions.prices.ask import ask, wants_refresh
from gpuwise.questions.prices.options import PricesOptions

__all__ = ["GpuPrices", "PricesAnswer", "RefreshAnswer", "answer", "prices"]

_TREND_YEARS = 1  # rents move within a year; two years back many of today's clouds had no offer


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPrices:
    """One GPU: what it costs to buy now, used and new, and to rent, every offer, and how the rent moved in a year."""

    gpu: Gpu
    price: Price | None
    used: Price | None
    new: Price | None
    rent: RentRange | None
    offers: tuple[Offer, ...]
    trend: Trend | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PricesAnswer(Shown):
    """Prices of the GPUs asked for, or of all that can be rented; regions where those were asked for."""

    TEXT: ClassVar[str] = "questions.prices.text.render"

    rows: tuple[GpuPrices, ...]
    regions: tuple[Region, ...]
    book: PriceBook
    assumptions: tuple[Assumption, ...]
    data_date: date

    def to_dict(self) -> dict[str, Any]:
        """Values in dollars, with the unit in every key."""
        return {
            "prices": [_row_dict(row) for row in self.rows],
            "regions": [_region_dict(region) for region in self.regions],
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshAnswer(Shown):
    """The rental prices that were downloaded, and where they are stored."""

    TEXT: ClassVar[str] = "questions.prices.text.render_refresh"

    refreshed: Refreshed

    def to_dict(self) -> dict[str, Any]:
        """What was fetched, as plain data."""
        return {**asdict(self.refreshed), "path": str(self.refreshed.path)}


def _row_dict(row: GpuPrices) -> dict[str, Any]:
    return {
        "gpu": row.gpu.name,
        "buy": _price_dict(row.price),
        "buy_used": _price_dict(row.used),
        "buy_new": _price_dict(row.new),
        "rent": None if row.rent is None else asdict(row.rent),
        "offers": [asdict(offer) for offer in row.offers],
        "trend": None if row.trend is None else asdict(row.trend),
    }


def _price_dict(price: Price | None) -> dict[str, Any] | None:
    return None if price is None else {**asdict(price), "basis": price.basis.value}


def _region_dict(region: Region) -> dict[str, Any]:
    power, grid = region.electricity, region.grid
    return {
        "region": region.name,
        "aliases": list(region.aliases),
        "usd_per_kwh": power.usd_per_kwh,
        "price_year": power.year,
        "price_source": power.source,
        "price_basis": power.basis.value,
        "kg_per_kwh": grid.kg_per_kwh,
        "carbon_year": grid.year,
        "carbon_source": grid.source,
        "carbon_basis": grid.basis.value,
    }


def answer(options: PricesOptions, progress: Callable[[str], None] = lambda text: None) -> PricesAnswer | RefreshAnswer:
    """Prices of these GPUs or of every GPU with a price, or today's downloaded rental prices."""
    if wants_refresh(options):
        return RefreshAnswer(refreshed=refresh(money_prices.today()))
    query = ask(options)
    book = query.book
    gpus = query.gpus
    if not gpus and not query.regions:
        known = book.rents.keys() | book.given.keys() | {row.gpu for row in tables.market()}
        gpus = tuple(gpu for gpu in load_catalog().gpus if gpu.name in known)
    return PricesAnswer(
        rows=tuple(_row(gpu, book) for gpu in gpus),
        regions=tables.regions() if query.regions else (),
        book=book,
        assumptions=query.assumptions,
        data_date=data_date(book),
    )


def _row(gpu: Gpu, book: PriceBook) -> GpuPrices:
    last = data_date(book)
    since = last.replace(year=last.year - _TREND_YEARS, day=1)
    return GpuPrices(
        gpu=gpu,
        price=price_now(gpu, book),
        used=price_now(gpu, book, "used") if gpu.name not in book.given else None,
        new=price_now(gpu, book, "new") if gpu.name not in book.given else None,
        rent=rent_median(gpu, book),
        offers=rent_offers(gpu, book),
        trend=tables.trend(gpu.name, since),
    )


prices = face(PricesOptions, answer)
