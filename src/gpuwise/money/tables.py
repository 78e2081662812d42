"""Reads the dated tables under `data/` and refreshed rents in the user's folder. Only this module depends on their columns.

`rental.csv` has one row per cloud and GPU, written by `tools/build_rental_prices.py`; `gpuwise prices refresh` writes another one
for the user. `rental_history.csv` has medians over clouds by quarter, `market.csv` has purchase prices, used or new, and
`regions.csv` has electricity prices and carbon intensities.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections import defaultdict
from collections.abc import Mapping
from datetime import date
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path

from gpuwise.core.errors import BadFile
from gpuwise.core.files import home
from gpuwise.core.provenance import Basis
from gpuwise.money.types import Electricity, Grid, Offer, Price, Region, Trend

__all__ = [
    "OFFER_COLUMNS",
    "history",
    "market",
    "market_of",
    "offers",
    "offers_of_text",
    "refreshed_folder",
    "refreshed_offers",
    "refreshed_path",
    "regions",
    "trend",
]

OFFER_COLUMNS = "cloud gpu kind usd_per_gpu_hour low_usd_per_gpu_hour spot_usd_per_gpu_hour with_host dated source note".split()
_DATA = files("gpuwise.money") / "data"
_HOME = home()


def _rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((_DATA / name).read_text(encoding="utf-8"))))


@cache
def offers() -> tuple[Offer, ...]:
    """Return every shipped offer."""
    return offers_of_text((_DATA / "rental.csv").read_text(encoding="utf-8"))


def offers_of_text(text: str) -> tuple[Offer, ...]:
    """Return the offers of a table in our columns; raise ValueError if it is not such a table."""
    reader = csv.DictReader(io.StringIO(text))
    if list(reader.fieldnames or ()) != OFFER_COLUMNS:
        raise ValueError("other columns")
    return tuple(
        Offer(
            cloud=row["cloud"],
            gpu=row["gpu"],
            kind=row["kind"],
            usd_per_gpu_hour=float(row["usd_per_gpu_hour"]),
            low_usd_per_gpu_hour=float(row["low_usd_per_gpu_hour"]),
            spot_usd_per_gpu_hour=float(row["spot_usd_per_gpu_hour"]) if row["spot_usd_per_gpu_hour"] else None,
            with_host=row["with_host"] == "yes",
            dated=date.fromisoformat(row["dated"]),
            source=row["source"],
            note=row["note"],
        )
        for row in reader
    )


@cache
def history() -> Mapping[str, tuple[tuple[date, float, int], ...]]:
    """Return the date, the median rent over clouds and the number of clouds by GPU, oldest first."""
    found: dict[str, list[tuple[date, float, int]]] = defaultdict(list)
    for row in _rows("rental_history.csv"):
        found[row["gpu"]].append((date.fromisoformat(row["dated"]), float(row["usd_per_gpu_hour"]), int(row["clouds"])))
    return {gpu: tuple(sorted(points)) for gpu, points in found.items()}


def trend(gpu: str, since: date) -> Trend | None:
    """Return how the rent of a GPU changed since the first point on or after a date; None without two points."""
    points = [point for point in history().get(gpu, ()) if point[0] >= since]
    if len(points) < 2:
        return None
    first, last = points[0], points[-1]
    return Trend(
        gpu=gpu,
        first=first[0],
        first_usd_per_gpu_hour=first[1],
        first_clouds=first[2],
        last=last[0],
        last_usd_per_gpu_hour=last[1],
        last_clouds=last[2],
    )


@cache
def market() -> tuple[Price, ...]:
    """Return dated purchase prices other than launch prices."""
    return tuple(
        Price(
            gpu=row["gpu"],
            kind=row["kind"],
            usd=float(row["usd"]),
            low_usd=float(row["low_usd"]),
            high_usd=float(row["high_usd"]),
            dated=date.fromisoformat(row["dated"]),
            source=row["source"],
            basis=Basis(row["basis"]),
            note=row["note"],
        )
        for row in _rows("market.csv")
    )


@cache
def _market_by_gpu() -> Mapping[str, tuple[Price, ...]]:
    found: dict[str, list[Price]] = defaultdict(list)
    for price in market():
        found[price.gpu].append(price)
    return {gpu: tuple(prices) for gpu, prices in found.items()}


def market_of(gpu: str) -> tuple[Price, ...]:
    """Return the dated prices of one GPU."""
    return _market_by_gpu().get(gpu, ())


@cache
def regions() -> tuple[Region, ...]:
    """Return countries, unions and the world."""
    return tuple(
        Region(
            name=row["region"],
            aliases=tuple(name.strip() for name in row["aliases"].split(";") if name.strip()),
            grid=Grid(
                region=row["region"],
                kg_per_kwh=float(row["g_per_kwh"]) / 1000,
                year=int(row["carbon_year"]),
                source=row["carbon_source"],
                basis=Basis(row["carbon_basis"]),
            ),
            electricity=Electricity(
                region=row["region"],
                usd_per_kwh=float(row["usd_per_kwh"]),
                year=int(row["price_year"]),
                source=row["price_source"],
                basis=Basis(row["price_basis"]),
            ),
        )
        for row in _rows("regions.csv")
    )


# ---------------------------------------------------------------- refreshed offers


def refreshed_folder() -> Path:
    """Return the user's data folder: `GPUWISE_DATA`, or the system's usual folder for data."""
    given = os.environ.get("GPUWISE_DATA")
    if given:
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or _HOME / "AppData" / "Local") / "gpuwise"
    return Path(os.environ.get("XDG_DATA_HOME") or _HOME / ".local" / "share") / "gpuwise"


def refreshed_path() -> Path:
    """Return the path of the table of refreshed offers."""
    return refreshed_folder() / "rental.csv"


def refreshed_offers() -> tuple[Offer, ...]:
    """Return the refreshed offers, or none."""
    place = refreshed_path()
    try:
        stamp = place.stat().st_mtime_ns
    except OSError:
        return ()
    return _read_refreshed(place, stamp)


@lru_cache(4)
def _read_refreshed(place: Path, stamp: int) -> tuple[Offer, ...]:
    try:
        return offers_of_text(place.read_text(encoding="utf-8"))
    except (OSError, KeyError, ValueError, TypeError, csv.Error):
        raise BadFile(
            f"{place} is not a table of rental offers",
            hint=f"write it again with `gpuwise prices refresh`, or delete it with `rm {place}`",
        ) from None
