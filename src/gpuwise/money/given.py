"""Prices that the user gives: typed (`--price "RTX 3090=700"`), or in a TOML price file, which is parsed and never executed:

currency = "EUR=1.08"          # for the amounts below; dollars if omitted
dated = 2026-11-01             # today if omitted
[buy]
"RTX 3090" = 700
[rent]                         # per GPU and hour
"H100 SXM 80GB" = 2.4
"RTX 4090" = { ondemand = 0.45, spot = 0.25, cloud = "my cloud" }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from gpuwise.core.errors import BadFile, BadValue, GpuwiseError
from gpuwise.core.files import check_readable
from gpuwise.core.provenance import Basis
from gpuwise.core.text import the
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.tables import parse_toml
from gpuwise.hardware.types import Gpu
from gpuwise.money.currency import Currency, amount, parse_currency
from gpuwise.money.types import Offer, Price

__all__ = ["PriceFile", "given_price", "parse_price", "parse_prices", "read_price_file"]

_PRICE = 'try `--price "RTX 3090=700"`'
_LARGEST = 4_000_000  # bytes; a larger file cannot be a price list
_PARTS = ("currency", "dated", "buy", "rent")
_RENT_PARTS = ("ondemand", "spot", "cloud")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceFile:
    """The content of a price file, in dollars."""

    prices: tuple[Price, ...] = ()
    offers: tuple[Offer, ...] = ()


def given_price(gpu: str, usd: float, dated: date, source: str = "you") -> Price:
    """Return a price that the user gave."""
    return Price(gpu=gpu, kind="given", usd=usd, low_usd=usd, high_usd=usd, dated=dated, source=source, basis=Basis.GIVEN)


def parse_price(text: str, currency: Currency, dated: date, gpus: Sequence[Gpu] = ()) -> Price:
    """Parse `RTX 3090=700`, in the user's currency. The name is in the catalogue, or that of one of these GPUs."""
    name, equals, value = text.rpartition("=")
    if not equals or not name.strip():
        raise BadValue(f"'{text}' does not name a GPU and its price", hint=_PRICE)
    named = next((one for one in gpus if one.name.lower() == name.strip().lower()), None)
    gpu = named or load_catalog().find(name.strip()).gpu
    paid = amount(currency.read(value, f"the price of {the(gpu.name)}", _PRICE), f"the price of {the(gpu.name)}", _PRICE)
    return given_price(gpu.name, currency.to_usd(paid), dated)


def read_price_file(path: Path, today: date) -> PriceFile:
    """Return the prices in a file; every error names the file, the section and the entry."""
    raw = _toml(path)
    unknown = [key for key in raw if key not in _PARTS]
    if unknown:
        raise BadFile(f"{path} has an unknown key '{unknown[0]}'", known=", ".join(_PARTS), hint=_see())
    currency = parse_currency(str(raw.get("currency", "")))
    dated = raw.get("dated", today)
    if type(dated) is not date or dated > today:
        raise BadFile(
            f"{path}: invalid value 'dated = {dated}'; it must be a date no later than today", hint=f"try `dated = {today}`"
        )
    prices = tuple(
        given_price(_gpu(path, "buy", name), currency.to_usd(_amount(path, "buy", name, value)), dated, str(path))
        for name, value in _section(path, raw, "buy").items()
    )
    offers = tuple(_offer(path, name, value, currency, dated) for name, value in _section(path, raw, "rent").items())
    return PriceFile(prices=prices, offers=offers)


def _toml(path: Path) -> dict[str, Any]:
    check_readable(path, _see(), _LARGEST)
    try:
        return parse_toml(path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise BadFile(
            f"{path} cannot be read: {fault.strerror}", hint="give the path of a price file, such as `--prices my.toml`"
        ) from None
    except RecursionError:
        raise BadFile(f"{path} is not a price file: it is nested too deeply", hint=_see()) from None
    except ValueError as fault:
        raise BadFile(f"{path} is not a price file: {fault}", hint=_see()) from None


def _section(path: Path, raw: dict[str, Any], name: str) -> dict[str, Any]:
    found = raw.get(name, {})
    if not isinstance(found, dict):
        raise BadFile(f"{path}: {name} must be a section", hint=f'write `[{name}]`, and below it `"RTX 3090" = 700`')
    return found


def _gpu(path: Path, section: str, name: str) -> str:
    try:
        return load_catalog().find(name).gpu.name
    except GpuwiseError as fault:
        raise BadFile(
            f"{path}, [{section}]: {fault.message}", looked_in=fault.looked_in, known=fault.known, hint=fault.hint
        ) from None


def _amount(path: Path, section: str, name: str, value: object) -> float:
    where = f"{path}, [{section}] {name}"
    hint = f'write a number, such as `"{name}" = {700 if section == "buy" else 2.4}`'
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadFile(f"{where} = {value!r} is not a number", hint=hint)
    try:
        return amount(float(value), where, hint)
    except OverflowError:  # an integer with too many digits
        raise BadFile(f"{where} is too large", hint=hint) from None


def _offer(path: Path, name: str, value: object, currency: Currency, dated: date) -> Offer:
    entry = value if isinstance(value, dict) else {"ondemand": value}
    unknown = [key for key in entry if key not in _RENT_PARTS]
    if unknown or "ondemand" not in entry:
        problem = f"an unknown key '{unknown[0]}'" if unknown else "no `ondemand` price"
        raise BadFile(f"{path}, [rent] {name} has {problem}", known=", ".join(_RENT_PARTS), hint=_see())
    hourly = currency.to_usd(_amount(path, "rent", name, entry["ondemand"]))
    spot = currency.to_usd(_amount(path, "rent", name, entry["spot"])) if "spot" in entry else None
    return Offer(
        cloud=str(entry.get("cloud", path.stem)),
        gpu=_gpu(path, "rent", name),
        kind="given",
        usd_per_gpu_hour=hourly,
        low_usd_per_gpu_hour=hourly,
        spot_usd_per_gpu_hour=spot,
        dated=dated,
        source=str(path),
    )


def _see() -> str:
    return "`gpuwise prices --help` and docs/guides/cost.md describe the format"


def parse_prices(texts: Sequence[str], currency: Currency, dated: date, gpus: Sequence[Gpu] = ()) -> tuple[Price, ...]:
    """Parse several prices; a later one for the same GPU wins."""
    return tuple({price.gpu: price for price in (parse_price(text, currency, dated, gpus) for text in texts)}.values())
