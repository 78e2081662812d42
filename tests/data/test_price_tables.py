"""Invariants of every row of the price tables."""

from __future__ import annotations

import csv
from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from gpuwise.core.provenance import Basis
from gpuwise.hardware.catalog import load_catalog
from gpuwise.money import costs, tables
from gpuwise.money.types import Offer, Price, Region
from whole_tables import every_row

NAMES = {gpu.name for gpu in load_catalog().gpus}
FIRST, LAST = date(2020, 1, 1), date(2026, 8, 22)
LAST_MARKET = date(2026, 11, 16)


@every_row(tables.offers(), lambda offer: f"{offer.cloud} {offer.gpu}")
def test_every_offer_is_sound(offer: Offer) -> None:
    assert offer.gpu in NAMES
    assert offer.cloud == offer.cloud.strip().lower() != ""
    assert 0.02 < offer.low_usd_per_gpu_hour <= offer.usd_per_gpu_hour < 40
    assert offer.spot_usd_per_gpu_hour is None or 0 < offer.spot_usd_per_gpu_hour < offer.usd_per_gpu_hour
    assert offer.kind in ("cloud", "marketplace", "auction")
    assert FIRST <= offer.dated <= LAST
    assert "@" in offer.source


def test_a_cloud_has_one_offer_for_a_gpu() -> None:
    counts = Counter((offer.cloud, offer.gpu) for offer in tables.offers())
    assert max(counts.values()) == 1


def test_traps_of_the_list_are_told() -> None:
    for offer in tables.offers():
        assert (offer.dated == date(2026, 1, 1)) == (offer.cloud == "aws")
        assert (offer.kind == "auction") == (offer.cloud == "mithril") == ("auction" in offer.note)
        assert offer.with_host or (offer.cloud == "gcp" and "billed separately" in offer.note)
        assert (offer.kind == "marketplace") == ("marketplace" in offer.note)


def test_old_gpus_of_gcp_come_without_their_machine() -> None:
    apart = {offer.gpu for offer in tables.offers() if not offer.with_host}
    assert {"P4", "T4", "L4", "P100 PCIe 16GB", "V100 SXM 16GB"} <= apart
    assert not {name for name in apart if name.startswith(("A100", "H100", "TPU"))}


def test_names_that_leave_the_form_open_are_kept_for_both_forms() -> None:
    azure = {offer.gpu: offer for offer in tables.offers() if offer.cloud == "azure"}
    assert azure["H100 SXM 80GB"].usd_per_gpu_hour == azure["H100 PCIe 80GB"].usd_per_gpu_hour
    assert "H100 SXM 80GB or H100 PCIe 80GB" in azure["H100 SXM 80GB"].note


@every_row(tables.history())
def test_every_history_is_sound(gpu: str) -> None:
    assert gpu in NAMES
    points = tables.history()[gpu]
    assert [point[0] for point in points] == sorted({point[0] for point in points})
    assert all(0.02 < usd < 40 and clouds >= 1 for _, usd, clouds in points)


def test_every_market_price_is_sound() -> None:
    def sound(price: Price) -> bool:
        ordered = 0 < price.low_usd <= price.usd <= price.high_usd
        known = price.gpu in NAMES and price.kind in ("used", "new") and len(price.source) > 5
        return ordered and known and FIRST <= price.dated <= LAST_MARKET and not price.estimated

    assert [price for price in tables.market() if not sound(price)] == []


@every_row(tables.regions(), lambda region: region.name)
def test_every_region_is_sound(region: Region) -> None:
    assert 0.01 < region.grid.kg_per_kwh < 1.0
    assert 0.01 < region.electricity.usd_per_kwh < 0.8
    for figure in (region.grid, region.electricity):
        assert figure.source
        assert 2020 <= figure.year <= 2026
        assert figure.basis in (Basis.DATABASE, Basis.DERIVED, Basis.ASSUMED)
        assert (figure.basis is Basis.ASSUMED) == ("general knowledge" in figure.source)


def test_a_region_is_found_by_every_spelling_and_none_means_two() -> None:
    spellings = [name.lower() for region in tables.regions() for name in (region.name, *region.aliases)]
    assert len(spellings) == len(set(spellings))
    assert costs.find_region("uk").name == "United Kingdom"
    assert costs.find_region(costs.DEFAULT_REGION).name == costs.DEFAULT_REGION


@pytest.mark.slow
def test_the_tables_are_what_the_tool_makes_of_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    evidence = root.parent / "shared" / "evidence"
    if not evidence.exists():
        pytest.skip("the published prices are not beside this checkout")
    monkeypatch.syspath_prepend(str(root / "tools"))
    import build_rental_prices

    for name, rows in (
        ("rental.csv", build_rental_prices.rental(evidence / "prices.csv")),
        ("rental_history.csv", build_rental_prices.history(evidence / "prices_history.csv")),
    ):
        with (build_rental_prices.DATA / name).open(encoding="utf-8", newline="") as file:
            assert list(csv.DictReader(file)) == rows, "run python tools/build_rental_prices.py"


def test_tables_are_small() -> None:
    """Most of it are the sources of some 500 published prices."""
    folder = Path(tables.__file__).parent / "data"
    assert sum(path.stat().st_size for path in folder.glob("*.csv")) < 200_000


def test_a_range_of_asking_prices_is_not_told_by_its_lowest_end() -> None:
    """Whoever looks for a used H100 does not find it for what the cheapest seller of one month asked."""
    asked = [price for price in tables.market() if "asking prices" in price.note and price.high_usd > price.low_usd]
    assert asked
    assert not [price for price in asked if price.usd <= price.low_usd]
