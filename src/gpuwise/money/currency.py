"""Currencies that people type and read, and checks on typed numbers. Internally, everything is in US dollars; the user
supplies exchange rates, because they change daily.
"""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass

from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.core.text import either

__all__ = ["CODES", "USD", "Currency", "amount", "fraction", "number", "parse_currency"]

_THOUSANDS = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d*)?")
_MOST = 1e15  # above any price, energy or time that people ask about


def number(text: str, what: str, hint: str) -> float:
    """Parse a number. A comma separates thousands; `700,50` is ambiguous, and is refused.

    >>> number("$1,499", "a price", "")
    1499.0
    """
    plain = text.strip().lstrip("$")
    try:
        return float(plain.replace(",", "") if _THOUSANDS.fullmatch(plain) else plain)
    except ValueError:
        raise BadValue(f"'{text}' is not a valid number for {what}", hint=hint) from None


def amount(value: float, what: str, hint: str, *, zero: bool = False) -> float:
    """Check that a value is finite and above zero (or zero, if that makes sense)."""
    if not math.isfinite(value):
        raise BadValue(f"{what} must be a finite number, not {value}", hint=hint)
    if value < 0 or (value == 0 and not zero):
        raise BadValue(f"{what} must be {'zero or more' if zero else 'above zero'}, not {value:g}", hint=hint)
    if value > _MOST:
        raise BadValue(f"{what} of {value:g} is too large", hint=hint)
    return value


def fraction(value: float, what: str, option: str, example: str) -> float:
    """Check that a share is in 0..1. A value such as 15 probably means 15%, so it is refused with a hint about the correct
    spelling.
    """
    if not math.isfinite(value) or value < 0:
        raise BadValue(f"{what} of {value:g} is not a fraction between 0 and 1", hint=f"try `{option} {example}`")
    if value > 1:
        percent = f"for {value:g}%, write `{option} {value / 100:g}`"
        share = percent if value <= 100 else f"try `{option} {example}`"
        raise BadValue(f"{what} of {value:g} is not a fraction between 0 and 1", hint=share)
    return value


# ISO 4217 codes of currencies in use.
CODES = frozenset(
    "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP CNY COP "
    "CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR "
    "ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN "
    "MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD "
    "SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW "
    "ZWG".split()
)
# Currency signs next to amounts, and the currencies they may mean.
_SIGNS = {
    "$": "USD ARS AUD BBD BMD BND BSD BZD CAD CLP COP FJD GYD HKD JMD KYD LRD MXN NAD NZD SBD SGD SRD TTD TWD UYU XCD".split(),
    "€": ["EUR"],
    "£": "GBP EGP FKP GIP LBP SDG SHP SSP SYP".split(),
    "¥": ["JPY", "CNY"],
    "₩": ["KRW", "KPW"],
    "₹": ["INR"],
}
_MARK = r"([A-Za-z]{3}|[$€£¥₩₹])"
_AMOUNT = re.compile(rf"{_MARK}?\s*([-+]?[\d.,]+(?:[eE][-+]?\d+)?)\s*{_MARK}?")
_HINT = "give the value of one unit in US dollars, such as `--currency EUR=1.08`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Currency:
    """A currency and what one unit of it is worth in US dollars."""

    code: str = "USD"
    usd_per_unit: float = 1.0

    def to_usd(self, value: float) -> float:
        """Return the value of this many units in dollars."""
        return value * self.usd_per_unit

    def read(self, text: str, what: str, hint: str) -> float:
        """Parse an amount as people write it, in units of this currency; another currency is refused.

        >>> [Currency().read(text, "the budget", "") for text in ("$800", "800 USD", "1,500", "1e3")]
        [800.0, 800.0, 1500.0, 1000.0]
        """
        found = _AMOUNT.fullmatch(text.strip())
        if found is None:
            return number(text, what, hint)
        for mark in filter(None, (found[1], found[3])):
            known = _SIGNS.get(mark, [mark.upper()])
            if not set(known) & CODES:
                return number(text, what, hint)
            if self.code not in known:
                code = known[0]
                other = f"add `--currency {code}=…` with the value of one {code} in US dollars"
                dollars = f"leave out `--currency` to use US dollars, or write the amount in {self.code}"
                raise BadValue(
                    f"'{text.strip()}' is in {code}, but amounts must be in {self.code}; gpuwise does not store exchange rates",
                    hint=dollars if code == "USD" else other,
                )
        return number(found[2], what, hint)

    def show(self, usd: float, digits: int | None = None) -> str:
        """Format an amount of dollars as users of this currency write it.

        >>> Currency().show(1499.0), Currency().show(0.4), Currency(code="EUR", usd_per_unit=1.25).show(1000)
        ('$1,499', '$0.40', '800 EUR')
        """
        value = usd / self.usd_per_unit
        size = abs(value)
        whole = size >= 100 or size == 0 or (size >= 10 and abs(size - round(size)) < 0.005)
        decimals = digits if digits is not None else 0 if whole else 2 if size >= 0.1 else 3
        text = f"{size:,.{decimals}f}"
        sign = "-" if value < 0 and float(text.replace(",", "")) else ""
        return f"{sign}${text}" if self.code == "USD" else f"{sign}{text} {self.code}"


USD = Currency()


def parse_currency(text: str) -> Currency:
    """Parse `EUR=1.08`, which means that one euro is worth 1.08 dollars. An empty text or USD means dollars."""
    code, equals, rate = (part.strip() for part in text.partition("="))
    code = code.upper()
    if code in ("", "USD") and not equals:
        return USD
    if code not in CODES:
        near = difflib.get_close_matches(code, sorted(CODES), n=2, cutoff=0.5)
        meant = either(f"`{name}`" for name in near)
        hint = f"did you mean {meant}? Also give its value in US dollars: `--currency EUR=1.08`" if near else _HINT
        raise UnknownName(f"unknown currency '{code}'", looked_in=f"{len(CODES)} ISO 4217 codes", hint=hint)
    if not equals:
        raise BadValue(
            f"the exchange rate for {code} is missing, and gpuwise does not store exchange rates",
            hint=_HINT,
        )
    value = amount(number(rate, f"the exchange rate for {code}", _HINT), f"the exchange rate for {code}", _HINT)
    if code == "USD" and value != 1.0:
        raise BadValue(f"the exchange rate for USD is always 1, not {value:g}", hint=_HINT)
    return Currency(code=code, usd_per_unit=value)
