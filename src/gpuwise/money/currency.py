"""The money people type and read. Inside, everything is in US dollars; rates are the user's, since they change by the day."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from gpuwise.errors import BadValue, UnknownName
from gpuwise.money.checks import amount, number

__all__ = ["CODES", "USD", "Currency", "parse_currency"]

# ISO 4217 codes of currencies in use.
CODES = frozenset(
    "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP CNY COP "
    "CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR "
    "ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN "
    "MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD "
    "SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW "
    "ZWG".split()
)
_HINT = "write what one unit is worth in US dollars, such as `--currency EUR=1.08`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Currency:
    """A currency and what one unit of it is worth in US dollars."""

    code: str = "USD"
    usd_per_unit: float = 1.0

    def to_usd(self, value: float) -> float:
        """Dollars that this many units are worth."""
        return value * self.usd_per_unit

    def show(self, usd: float, digits: int | None = None) -> str:
        """An amount of dollars as a person of this currency writes it.

        >>> Currency().show(1499.0), Currency().show(0.4), Currency(code="EUR", usd_per_unit=1.25).show(1000)
        ('$1,499', '$0.40', '800 EUR')
        """
        value = usd / self.usd_per_unit
        size = abs(value)
        decimals = digits if digits is not None else 0 if size >= 100 or size == 0 else 2 if size >= 0.1 else 3
        text = f"{size:,.{decimals}f}"
        sign = "-" if value < 0 and float(text.replace(",", "")) else ""
        return f"{sign}${text}" if self.code == "USD" else f"{sign}{text} {self.code}"


USD = Currency()


def parse_currency(text: str) -> Currency:
    """`EUR=1.08`: one euro is worth 1.08 dollars. Nothing, or USD, is dollars."""
    code, equals, rate = (part.strip() for part in text.partition("="))
    code = code.upper()
    if code in ("", "USD") and not equals:
        return USD
    if code not in CODES:
        near = difflib.get_close_matches(code, sorted(CODES), n=2, cutoff=0.5)
        hint = f"did you mean {' or '.join(f'`{name}`' for name in near)}? " if near else ""
        raise UnknownName(f"no currency called '{code}'", looked_in=f"{len(CODES)} ISO 4217 codes", hint=hint + _HINT)
    if not equals:
        raise BadValue(f"no rate is given for {code}", looked_in="--currency; gpuwise keeps no exchange rates", hint=_HINT)
    value = amount(number(rate, f"the rate of {code}", _HINT), f"the rate of {code}", _HINT)
    if code == "USD" and value != 1.0:
        raise BadValue(f"a US dollar is worth one US dollar, not {value:g}", hint=_HINT)
    return Currency(code=code, usd_per_unit=value)
