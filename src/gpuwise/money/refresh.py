"""Current rental prices, fetched with the `gpuhunt` library on request and written in our own columns.

Only price lists that need no account are used (gpuhunt calls them offline providers). There is one row per cloud and GPU: the
median price of one GPU over regions and sizes.
"""

from __future__ import annotations

import csv
import io
import logging
import re
import socket
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

from gpuwise.core.errors import BadFile, GpuwiseError, MissingExtra
from gpuwise.core.files import write_whole
from gpuwise.money.naming import products
from gpuwise.money.tables import OFFER_COLUMNS, refreshed_path

__all__ = ["Refreshed", "refresh", "table_of"]

_TIMEOUT_S = 30.0  # seconds, after which a price list counts as unavailable
_LEAST_USD = 0.02  # a lower price is a placeholder
_CLOUDS = {"lambdalabs": "lambda", "vastai": "vast"}  # as our own table spells them
_MARKETPLACES = frozenset({"runpod", "vast", "tensordock", "lium"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """The table that was written, its path, and the names in the lists that the catalogue does not know, by frequency."""

    path: Path
    offers: int
    gpus: int
    clouds: tuple[str, ...]
    unknown: Mapping[str, int]


def refresh(today: date) -> Refreshed:
    """Fetch, translate, and write atomically."""
    rows, unknown = table_of(_fetch(), today)
    if not rows:
        raise GpuwiseError(
            "the downloaded price lists contain no known GPU", hint="try again later; the current prices have not changed"
        )
    text = io.StringIO()
    writer = csv.DictWriter(text, OFFER_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    place = refreshed_path()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise BadFile(
            f"{place.parent} cannot be created: {fault.strerror}", hint="set `GPUWISE_DATA` to another folder"
        ) from None
    write_whole(place, text.getvalue().encode())
    clouds = tuple(sorted({row["cloud"] for row in rows}))
    return Refreshed(path=place, offers=len(rows), gpus=len({row["gpu"] for row in rows}), clouds=clouds, unknown=unknown)


def _fetch() -> list[Any]:
    """Return gpuhunt's offers. This is the only function that uses the network."""
    try:
        import gpuhunt
    except ImportError:
        raise MissingExtra("gpuhunt", extra="prices", needed_for="refreshing prices") from None
    log = logging.getLogger("gpuhunt")
    level, wait = log.level, socket.getdefaulttimeout()
    log.setLevel(logging.CRITICAL + 1)  # it writes a traceback for every list that fails
    socket.setdefaulttimeout(_TIMEOUT_S)
    try:
        catalog = gpuhunt.Catalog(balance_resources=False, auto_reload=False)
        catalog.load()
        return list(catalog.query(min_gpu_count=1))
    except Exception as fault:  # network, archive and list errors of many kinds, all outside gpuwise
        cause = fault.__cause__ or fault
        reason = (str(cause).strip() or type(cause).__name__).splitlines()[0]
        raise GpuwiseError(
            f"the price lists could not be downloaded: {reason}",
            looked_in="the price lists that gpuhunt downloads",
            hint="check the network and try again; the current prices have not changed",
        ) from None
    finally:
        log.setLevel(level)
        socket.setdefaulttimeout(wait)


def table_of(items: Iterable[Any], today: date) -> tuple[list[dict[str, str]], dict[str, int]]:
    """Return rows in our columns, and the names that match no product in the catalogue."""
    usual: dict[tuple[str, str], list[float]] = defaultdict(list)
    spot: dict[tuple[str, str], list[float]] = defaultdict(list)
    forms: dict[tuple[str, str], int] = {}
    unknown: Counter[str] = Counter()
    for item in items:
        if not item.gpu_count or not item.gpu_name or not item.price:
            continue
        usd = float(item.price) / item.gpu_count
        name = re.sub(r"(?<=\d)NVL$", " NVL", str(item.gpu_name))
        found = (products(f"{name} {item.gpu_memory:g}GB") if item.gpu_memory else ()) or products(name)
        if not found:
            unknown[str(item.gpu_name)] += 1
        for gpu in found if _LEAST_USD < usd < float("inf") else ():
            key = _CLOUDS.get(item.provider, str(item.provider)), gpu.name
            (spot if item.spot else usual)[key].append(usd)
            forms[key] = len(found)
    rows = [
        _row(cloud, gpu, values, spot.get((cloud, gpu), []), today, forms[cloud, gpu] > 1)
        for (cloud, gpu), values in usual.items()
    ]
    return sorted(rows, key=lambda row: (row["gpu"], row["cloud"])), dict(unknown)


def _row(cloud: str, gpu: str, usual: list[float], spot: list[float], today: date, several: bool) -> dict[str, str]:
    hourly, cheap = median(usual), median(spot) if spot else None
    market = cloud in _MARKETPLACES
    notes = ("marketplace" if market else "", "form factor not specified" if several else "")
    return {
        "cloud": cloud,
        "gpu": gpu,
        "kind": "marketplace" if market else "cloud",
        "usd_per_gpu_hour": f"{hourly:g}",
        "low_usd_per_gpu_hour": f"{min(usual):g}",
        "spot_usd_per_gpu_hour": f"{cheap:g}" if cheap is not None and cheap < hourly else "",
        "with_host": "yes",
        "dated": today.isoformat(),
        "source": "gpuhunt",
        "note": "; ".join(filter(None, notes)),
    }
