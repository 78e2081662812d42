"""Current prices to buy and rent a GPU: the user's own price first, then the newest one with a date and a source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache, lru_cache
from pathlib import Path
from statistics import median

from gpuwise.core.text import the
from gpuwise.hardware.types import Gpu
from gpuwise.money import tables
from gpuwise.money.currency import USD, Currency, parse_currency
from gpuwise.money.estimates import estimate, remaining, years_since
from gpuwise.money.given import PriceFile, parse_prices, read_price_file
from gpuwise.money.types import MONTHS_PER_YEAR, Offer, Price, RentRange

__all__ = [
    "CONDITIONS",
    "NEW_MONTHS",
    "NUMBERS",
    "STALE_DAYS",
    "PriceBook",
    "age_of_machine",
    "age_text",
    "data_date",
    "is_stale",
    "is_used",
    "kind_and_age",
    "kind_text",
    "kinds_text",
    "launch_price",
    "price_now",
    "price_text",
    "rent_median",
    "rent_offers",
    "resale_usd",
    "sold_new",
    "stale_sentence",
    "today",
    "used_now",
]

CONDITIONS = ("any", "new", "used")  # what a buyer accepts
NEW_MONTHS = 30  # assumed time after launch during which shops sell a card, because makers do not announce when sales end
_RECENT_DAYS = 180  # an older price is replaced by an estimate
_ALIKE_DAYS = 75  # prices this close in time share one median


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceBook:
    """All available prices: the user's own by GPU name, rental offers, and the currency for input and output."""

    given: Mapping[str, Price] = field(default_factory=dict)
    rents: Mapping[str, tuple[Offer, ...]] = field(default_factory=dict)
    currency: Currency = USD
    today: date

    @classmethod
    def of(
        cls,
        prices: Sequence[str] = (),
        file: Path | str | None = None,
        currency: str = "",
        today: date | None = None,
        gpus: Sequence[Gpu] = (),
    ) -> PriceBook:
        """Combine the shipped (or refreshed) tables, a price file that overrides them, and single prices that override both.
        Single prices may name these `gpus`, which need not be in the catalogue.
        """
        now = _day(today)
        money = parse_currency(currency)
        own = read_price_file(Path(file), now) if file else PriceFile()
        typed = parse_prices(prices, money, now, gpus) if prices else ()
        given = {price.gpu: price for price in (*own.prices, *typed)}
        return cls(given=given, rents=_with(own.offers), currency=money, today=now)


def _with(own: Sequence[Offer]) -> Mapping[str, tuple[Offer, ...]]:
    """Return offers by GPU; if the user gave some for a GPU, only those."""
    mine: dict[str, list[Offer]] = defaultdict(list)
    for offer in own:
        mine[offer.gpu].append(offer)
    return {**_by_gpu(tables.refreshed_offers()), **{gpu: tuple(found) for gpu, found in mine.items()}}


@cache
def _by_gpu(newer: tuple[Offer, ...]) -> Mapping[str, tuple[Offer, ...]]:
    """Return the shipped offers, with those of clouds in the newer list replaced."""
    clouds = {offer.cloud for offer in newer}
    found: dict[str, list[Offer]] = defaultdict(list)
    for offer in (*newer, *(one for one in tables.offers() if one.cloud not in clouds)):
        found[offer.gpu].append(offer)
    return {gpu: tuple(sorted(rows, key=lambda offer: offer.usd_per_gpu_hour)) for gpu, rows in found.items()}


def launch_price(gpu: Gpu) -> Price | None:
    """Return the launch price, for one device of a board."""
    if gpu.launch_usd is None or gpu.launched_on is None:
        return None
    fact = gpu.fact("launch_usd")
    usd = gpu.launch_usd / gpu.devices_per_board
    shared = f"one of {gpu.devices_per_board} GPUs on a board" if gpu.devices_per_board > 1 else ""
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
    """Return the current price of a card in one of `CONDITIONS`: the user's, the median of recent prices with a date and a
    source, or else an estimate. For any condition, it is the lower of the published prices, new or used; if there is none,
    it is an estimate for a new card while shops sell it, then for a used one.

    Its `kind` and date say which it is: from a shop (new), used, or the launch price. None if no price is known.
    """
    if gpu.name in book.given:
        return book.given[gpu.name]
    kinds = [condition] if condition != "any" else ["new", "used"] if sold_new(gpu, book.today) else ["used", "new"]
    known = {kind: [price for price in tables.market_of(gpu.name) if price.kind == kind] for kind in kinds}
    published = {kind: _usual(known[kind], book.today) for kind in kinds}
    if condition == "any" and any(published.values()):
        return min(filter(None, published.values()), key=lambda price: price.usd)
    sold = sold_new(gpu, book.today)  # no estimate for a card that no shop sells
    recent = (published[kind] or (estimate(gpu, kind) if sold or kind == "used" else None) for kind in kinds)
    former = (_usual(known[kind], None) for kind in kinds)
    found = next((price for price in (*recent, *former) if price is not None), None)
    return found if found is not None or condition == "used" else launch_price(gpu)


def _usual(known: Sequence[Price], today: date | None) -> Price | None:
    """Return the median of the newest prices of one card and kind, with the range of most of them, or None if they are too
    old.
    """
    newest = max((price.dated for price in known), default=None)
    if newest is None or (today is not None and (today - newest).days > _RECENT_DAYS):
        return None
    recent = sorted((price for price in known if (newest - price.dated).days <= _ALIKE_DAYS), key=lambda price: price.usd)
    first = recent[0]
    sources = dict.fromkeys(price.source for price in recent)
    return Price(
        gpu=first.gpu,
        kind=first.kind,
        usd=round(median(price.usd for price in recent)),
        low_usd=_nearly_least([price.low_usd for price in recent]),
        high_usd=-_nearly_least([-price.high_usd for price in recent]),
        dated=newest,
        source="; ".join(sources),
        basis=first.basis,
        note=first.note if len(recent) == 1 else f"the median of {len(recent)} prices",
    )


def _nearly_least(amounts: Sequence[float]) -> float:
    """Return the value that one in five lies below, because a single unusual offer does not reflect the market."""
    return sorted(amounts)[len(amounts) // 5]


def sold_new(gpu: Gpu, today: date) -> bool:
    """Return whether this GPU was launched recently enough that shops still sell it."""
    return gpu.launched_on is not None and years_since(gpu.launched_on, today) <= NEW_MONTHS / MONTHS_PER_YEAR


def is_used(gpu: Gpu, price: Price, today: date) -> bool:
    """Return whether this is the price of a used card. A price that the user gave is, if the card is no longer sold new."""
    return price.kind == "used" or (price.kind == "given" and not sold_new(gpu, today))


def resale_usd(gpu: Gpu, price: Price, years: float, today: date) -> float:
    """Return the resale value of a GPU bought at this price after these years: at most that of a GPU bought used today."""
    own = price.usd * remaining(years, new=not is_used(gpu, price, today))
    used = used_now(gpu, today)
    return own if used is None else min(own, used.usd * remaining(years, new=False))


@lru_cache(maxsize=4096)
def used_now(gpu: Gpu, today: date) -> Price | None:
    """Return the price of a used card, regardless of the price that the user pays."""
    return price_now(gpu, PriceBook(today=today), "used")


def age_of_machine(gpu: Gpu, price: Price | None, today: date) -> float:
    """Return the age in years of the machine that is bought for this GPU: a used card goes into a machine from the time when
    shops stopped selling the card.
    """
    if price is None or gpu.launched_on is None or not is_used(gpu, price, today):
        return 0.0
    return max(0.0, years_since(gpu.launched_on, today) - NEW_MONTHS / MONTHS_PER_YEAR)


def rent_offers(gpu: Gpu, book: PriceBook) -> tuple[Offer, ...]:
    """Return every offer for this GPU, cheapest first."""
    return book.rents.get(gpu.name, ())


def rent_median(gpu: Gpu, book: PriceBook) -> RentRange | None:
    """Return the median price across clouds. Auctions, and GPUs without a host machine, count only if there is nothing else."""
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
    """Return the newest date in the rental tables of the book."""
    days = [offer.dated for offers in book.rents.values() for offer in offers if offer.kind != "given"]
    return max(days, default=book.today)


# ---------------------------------------------------------------- how old a price is, and whether that matters

_YEARS_FROM = 25  # months; the age of older prices is given in years
STALE_DAYS = {"launch": 180, "new": 90, "used": 90, "rent": 120, "given": 365}
_KINDS = {"launch": "launch", "new": "shop", "used": "used"}
NUMBERS = "no one two three four five six seven eight nine ten eleven twelve".split()


def today() -> date:
    """Return the date on which a question is asked; the only clock in this package."""
    return date.today()


def _day(given: date | None) -> date:
    return given or today()


def age_text(dated: date, now: date) -> str:
    """Return the time since this date in words.

    >>> age_text(date(2020, 9, 24), date(2026, 11, 16)), age_text(date(2026, 8, 22), date(2026, 11, 16))
    ('six years old', 'three months old')
    """
    days = (now - dated).days
    if days < 14:
        return "less than two weeks old"
    if days < 60:
        return f"{_count(round(days / 7))} weeks old"
    if days < 731:
        return f"{_count(round(days / 30.44))} months old"
    return f"{_count(int(days / 365.25))} years old"


def _count(value: int) -> str:
    return NUMBERS[value] if value < len(NUMBERS) else str(value)


def is_stale(dated: date, kind: str, now: date) -> bool:
    """Return whether a price of this kind has probably changed since."""
    return (now - dated).days > STALE_DAYS[kind]


def kind_text(price: Price) -> str:
    """Return the kind and date of a price: `used price in 2026-06`."""
    if price.kind == "given":
        return "your price"
    guessed = "estimated " if price.estimated else ""
    return f"{guessed}{_KINDS[price.kind]} price in {price.dated:%Y-%m}"


def kind_and_age(price: Price, now: date) -> str:
    """Return the kind and date of a price, and its age if an estimate would have replaced it, had there been one."""
    return price_text(price, now) if (now - price.dated).days > _RECENT_DAYS else kind_text(price)


def price_text(price: Price, now: date) -> str:
    """Return the kind, date and age of a price.

    >>> from gpuwise.core.provenance import Basis
    >>> one = Price(gpu="RTX 3090", kind="launch", usd=1499, low_usd=1499, high_usd=1499, dated=date(2020, 9, 24), source="",
    ...             basis=Basis.DATASHEET)
    >>> price_text(one, date(2026, 11, 16))
    'launch price in 2020-09, six years old'
    """
    return kind_text(price) if price.kind == "given" else f"{kind_text(price)}, {_age_by_month(price.dated, now)}"


def _age_by_month(dated: date, now: date) -> str:
    """Return the age from the months alone, because many prices are dated only by month, and only the month is shown."""
    months = max(0, MONTHS_PER_YEAR * (now.year - dated.year) + now.month - dated.month)
    if months >= _YEARS_FROM:
        return f"{_count(months // MONTHS_PER_YEAR)} years old"
    return "less than a month old" if not months else "one month old" if months == 1 else f"{_count(months)} months old"


def stale_sentence(price: Price, now: date) -> str:
    """Return a warning if the price has probably changed, or nothing."""
    if not is_stale(price.dated, price.kind, now):
        return ""
    current = f'set it with `--price "{price.gpu}=…"`'
    whose = "your" if price.kind == "given" else f"the {_KINDS[price.kind]}"
    age = f"{_age_by_month(price.dated, now)} ({price.dated:%Y-%m})"
    return f"{whose} price of {the(price.gpu)} is {age}, so the current price may be very different; {current}"


_FEW_PRICES = 3  # cards that are named one by one
_PRICE_KINDS = (
    ("launch", False, "launch"),
    ("new", False, "shop"),
    ("used", False, "used"),
    ("new", True, "estimated shop"),
    ("used", True, "estimated used"),
)


def kinds_text(prices: Sequence[Price]) -> str:
    """Return how many cards have which kind of price, and their dates."""
    said = []
    for kind, guessed, words in _PRICE_KINDS:
        days = {price.gpu: price.dated for price in prices if price.kind == kind and price.estimated == guessed}
        first, last = min(days.values(), default=None), max(days.values(), default=None)
        if first and last:
            span = f"{first:%Y-%m}" + (f" to {last:%Y-%m}" if f"{first:%Y-%m}" != f"{last:%Y-%m}" else "")
            named = ", ".join(days) + ", " if len(days) <= _FEW_PRICES else ""
            said.append(f"{len(days)} {words} price{'' if len(days) == 1 else 's'} ({named}{span})")
    return ", ".join(said)
