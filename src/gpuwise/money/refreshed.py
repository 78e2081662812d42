"""Where refreshed rental prices are kept, and how they are read back. Only `gpuwise prices refresh` writes them."""

from __future__ import annotations

import csv
import os
import sys
from functools import lru_cache
from pathlib import Path

from gpuwise.core.errors import BadFile
from gpuwise.core.files import home
from gpuwise.money.tables import offers_of_text
from gpuwise.money.types import Offer

__all__ = ["folder", "offers", "path"]


def folder() -> Path:
    """The user's data folder: `GPUWISE_DATA`, or the usual place of the system."""
    given = os.environ.get("GPUWISE_DATA")
    if given:
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home() / "AppData" / "Local") / "gpuwise"
    return Path(os.environ.get("XDG_DATA_HOME") or home() / ".local" / "share") / "gpuwise"


def path() -> Path:
    """The table of refreshed offers."""
    return folder() / "rental.csv"


def offers() -> tuple[Offer, ...]:
    """The refreshed offers, or none."""
    place = path()
    try:
        stamp = place.stat().st_mtime_ns
    except OSError:
        return ()
    return _read(place, stamp)


@lru_cache(4)
def _read(place: Path, stamp: int) -> tuple[Offer, ...]:
    try:
        return offers_of_text(place.read_text(encoding="utf-8"))
    except (OSError, KeyError, ValueError, TypeError, csv.Error):
        raise BadFile(
            f"{place} is not a table of offers", hint=f"`gpuwise prices refresh` writes it anew, or delete it: rm {place}"
        ) from None
