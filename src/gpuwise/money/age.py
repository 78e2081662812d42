"""How old a price is, and whether that matters. Answers state it, since prices go out of date before anything else."""

from __future__ import annotations

from datetime import date

from gpuwise.money.types import Price

__all__ = ["STALE_DAYS", "age_text", "is_stale", "kind_text", "price_text", "stale_sentence", "today"]

STALE_DAYS = {"launch": 180, "new": 90, "used": 90, "rent": 120, "given": 365}
_KINDS = {"launch": "launch", "new": "shop (new)", "used": "used"}
_NUMBERS = "no one two three four five six seven eight nine ten eleven twelve".split()


def today() -> date:
    """The day a question is asked; the one clock of this package."""
    return date.today()


def age_text(dated: date, now: date) -> str:
    """How long ago, as people say it.

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
    return _NUMBERS[value] if value < len(_NUMBERS) else str(value)


def is_stale(dated: date, kind: str, now: date) -> bool:
    """Whether a price of this kind has probably moved since."""
    return (now - dated).days > STALE_DAYS[kind]


def kind_text(price: Price) -> str:
    """What a price is, and of when: `used price of 2026-06`."""
    return "your price" if price.kind == "given" else f"{_KINDS[price.kind]} price of {price.dated:%Y-%m}"


def price_text(price: Price, now: date) -> str:
    """What a price is and how old.

    >>> from gpuwise.core.provenance import Basis
    >>> one = Price(gpu="RTX 3090", kind="launch", usd=1499, low_usd=1499, high_usd=1499, dated=date(2020, 9, 24), source="",
    ...             basis=Basis.DATASHEET)
    >>> price_text(one, date(2026, 11, 16))
    'launch price of 2020-09, six years old'
    """
    return kind_text(price) if price.kind == "given" else f"{kind_text(price)}, {age_text(price.dated, now)}"


def stale_sentence(price: Price, now: date) -> str:
    """A warning where the price has probably moved, or nothing."""
    if not is_stale(price.dated, price.kind, now):
        return ""
    current = f'give the current one with `--price "{price.gpu}=…"`'
    return f"the price of {price.gpu} is a {price_text(price, now)} and may have changed a lot; {current}"
