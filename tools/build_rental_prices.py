"""Writes `rental.csv` and `rental_history.csv` in `src/gpuwise/money/data/`: what clouds charge per GPU and hour, with dates.

    python tools/build_rental_prices.py ../shared/evidence

Values are copied with their origin. A row whose name does not specify the form factor is kept for each one, with a note.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import gpuwise.money
from gpuwise.money.naming import products
from gpuwise.money.tables import OFFER_COLUMNS

DATA = Path(gpuwise.money.__file__).parent / "data"
SOURCE = "skypilot-org/skypilot-catalog @f2624ac05"
MARKETPLACES = {"vast", "primeintellect", "shadeform", "runpod"}
AUCTIONS = {"mithril"}
# Names in the list that the catalogue does not know, and what they mean. TPU slices are listed with their number of chips.
NAMES = {
    "H100-MEGA": "H100 SXM 80GB",
    "RTX PRO 6000-WK": "RTX PRO 6000 Blackwell",
    "RTX PRO 6000WS": "RTX PRO 6000 Blackwell",
}
SLICES = {
    "tpu-v2-8": ("TPU v2", 4),
    "tpu-v3-8": ("TPU v3", 4),
    "tpu-v4-8": ("TPU v4", 4),
    "tpu-v5p-8": ("TPU v5p", 4),
    "tpu-v5litepod-1": ("TPU v5e", 1),
    "tpu-v6e-1": ("TPU v6e", 1),
}
# On GCP, these are billed without the machine. The list says so for older types, and the prices of the last two are also for the
# GPU alone.
HOST_APART = {"K80", "P4", "P100", "V100 16GB", "V100 32GB", "T4", "L4", "RTX PRO 6000"}
AWS_NOTE = "list of 2026-01-01, minimum over regions"
HOST_NOTE = "GPU only: the host machine is billed separately"
MARKET_NOTE = "marketplace"
AUCTION_NOTE = "reserve price of an auction, not a market price"


def main(evidence: Path) -> None:
    """Write both tables."""
    rows, past = rental(evidence / "prices.csv"), history(evidence / "prices_history.csv")
    _write(DATA / "rental.csv", OFFER_COLUMNS, rows)
    _write(DATA / "rental_history.csv", ["gpu", "dated", "usd_per_gpu_hour", "clouds"], past)
    print(f"{len(rows)} offers for {len({row['gpu'] for row in rows})} GPUs, {len(past)} points of history")


def rental(path: Path) -> list[dict[str, str]]:
    """The rows of `rental.csv`."""
    return sorted(_merged(_offers(path)), key=lambda row: (row["gpu"], row["cloud"]))


def history(path: Path) -> list[dict[str, str]]:
    """The rows of `rental_history.csv`."""
    return sorted(_history(path), key=lambda row: (row["gpu"], row["dated"]))


def _offers(path: Path) -> Iterable[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            meant, chips, open_note = _meant(row["gpu"])
            if not row["ondemand_usd_per_gpu_hour_median"]:
                continue
            for name in meant:
                yield _offer(row, name, chips, open_note)


def _offer(row: dict[str, str], gpu: str, chips: int, open_note: str) -> dict[str, str]:
    cloud = row["cloud"]
    alone = cloud == "gcp" and row["gpu"] in HOST_APART
    kind = "auction" if cloud in AUCTIONS else "marketplace" if cloud in MARKETPLACES else "cloud"
    notes = (
        AWS_NOTE if cloud == "aws" else "",
        HOST_NOTE if alone else "",
        MARKET_NOTE if kind == "marketplace" else AUCTION_NOTE if kind == "auction" else "",
        f"one of {chips} chips of the smallest slice" if chips > 1 else "",
        open_note,
    )
    return {
        "cloud": cloud,
        "gpu": gpu,
        "kind": kind,
        "usd_per_gpu_hour": _per_chip(row["ondemand_usd_per_gpu_hour_median"], chips),
        "low_usd_per_gpu_hour": _per_chip(row["ondemand_min"] or row["ondemand_usd_per_gpu_hour_median"], chips),
        "spot_usd_per_gpu_hour": _per_chip(_spot(row), chips),
        "with_host": "no" if alone else "yes",
        "dated": row["date"],
        "source": SOURCE,
        "note": "; ".join(filter(None, notes)),
    }


def _spot(row: dict[str, str]) -> str:
    """The spot price, or an empty string, because some lists repeat the usual price if they have no spot price."""
    spot, usual = row["spot_usd_per_gpu_hour_median"], row["ondemand_usd_per_gpu_hour_median"]
    return spot if spot and float(spot) < float(usual) else ""


def _per_chip(value: str, chips: int) -> str:
    return f"{float(value) / chips:g}" if value else ""


@cache  # the list repeats its names, and looking up an unknown name takes long
def _meant(name: str) -> tuple[tuple[str, ...], int, str]:
    """The products that a name in the list stands for, the number of chips that its price covers, and what the name does not
    specify."""
    if name in SLICES:
        gpu, chips = SLICES[name]
        return (gpu,), chips, ""
    same = tuple(gpu.name for gpu in products(NAMES.get(name, name)))
    return same, 1, f"form factor not stated: {' or '.join(same)}" if len(same) > 1 else ""


def _merged(rows: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """One row for each cloud and GPU. Rows that name the form factor are preferred, then the cheapest."""
    groups: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        groups[row["cloud"], row["gpu"]].append(row)
    return [
        min(group, key=lambda row: ("not stated" in row["note"], float(row["usd_per_gpu_hour"]))) for group in groups.values()
    ]


def _history(path: Path) -> Iterable[dict[str, str]]:
    groups: dict[tuple[str, str], dict[str, str]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            value = row["ondemand_usd_per_gpu_hour_median"]
            meant, chips, _ = _meant(row["gpu"])
            for gpu in meant if value else ():
                point = {
                    "gpu": gpu,
                    "dated": row["quarter_start"],
                    "usd_per_gpu_hour": _per_chip(value, chips),
                    "clouds": row["clouds"],
                }
                known = groups.get((gpu, row["quarter_start"]))
                if known is None or int(known["clouds"]) < int(point["clouds"]):  # the spelling that most clouds use
                    groups[gpu, row["quarter_start"]] = point
    return groups.values()


def _write(path: Path, columns: list[str], rows: list[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
