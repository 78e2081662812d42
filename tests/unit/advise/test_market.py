"""What can be had: sold new, sold used, to rent."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest

from gpuwise.advise.candidates import NEW_MONTHS, Wanted, buy_kind, buyable, older, price_for, rentable, served, sold_new, whole
from gpuwise.hardware.catalog import load_catalog
from gpuwise.money.prices import PriceBook

DAY = date(2026, 11, 16)
GPUS = {gpu.name: gpu for gpu in load_catalog().curated}


@pytest.fixture(autouse=True)
def _no_refreshed_prices(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_DATA", str(tmp_path))


def book(*prices: str) -> PriceBook:
    return PriceBook.of(prices=prices, file=None, currency="", today=DAY)


def test_a_card_is_sold_new_for_so_many_months() -> None:
    launched = GPUS["RTX 5090"].launched_on
    assert launched is not None
    assert sold_new(GPUS["RTX 5090"], launched + timedelta(days=30 * NEW_MONTHS))
    assert not sold_new(GPUS["RTX 5090"], launched + timedelta(days=31 * NEW_MONTHS))
    assert not sold_new(replace(GPUS["RTX 5090"], launched_on=None), DAY)


def test_the_launch_price_of_an_old_card_is_no_price_of_today() -> None:
    assert price_for(GPUS["RTX 2080 Ti"], book()) is None
    own = price_for(GPUS["RTX 2080 Ti"], book("RTX 2080 Ti=300"))
    assert own is not None
    assert own.usd == 300
    assert buy_kind(GPUS["RTX 2080 Ti"], own, DAY) == "buy used"


def test_every_card_to_buy_has_a_price_software_and_the_wished_kind() -> None:
    found = buyable(list(GPUS.values()), Wanted(vendor="NVIDIA"), book())
    assert {"RTX 5090", "RTX 3090"} <= {gpu.name for gpu, _ in found}
    for gpu, price in found:
        assert price is not None
        assert price.usd > 0
        assert served(gpu)
        assert gpu.vendor == "NVIDIA"
        assert gpu.segment in ("desktop", "workstation", "soc")


def test_without_used_cards_only_new_ones_are_left() -> None:
    for gpu, price in buyable(list(GPUS.values()), Wanted(condition="new"), book()):
        assert price is not None
        assert buy_kind(gpu, price, DAY) == "buy new"


def test_laptops_are_offered_without_a_price() -> None:
    found = buyable(list(GPUS.values()), Wanted(laptop=True), book())
    assert found
    assert all(gpu.segment == "laptop" and whole(gpu) for gpu, _ in found)
    assert any(price is None for _, price in found)


def test_an_older_card_has_no_price_until_one_is_given() -> None:
    names = {gpu.name for gpu in older(list(GPUS.values()), Wanted(), book())}
    assert "RTX 3080 Ti" in names
    assert not names & {gpu.name for gpu, _ in buyable(list(GPUS.values()), Wanted(), book())}
    assert "RTX 3080 Ti" not in {gpu.name for gpu in older(list(GPUS.values()), Wanted(), book("RTX 3080 Ti=350"))}


def test_what_one_cloud_alone_asks_is_no_market() -> None:
    for _, offer in rentable(list(GPUS.values()), "", book()):
        assert len(offer.clouds) >= 2
        assert offer.low_usd_per_gpu_hour <= offer.usd_per_gpu_hour <= offer.high_usd_per_gpu_hour
    assert all(gpu.vendor == "AMD" for gpu, _ in rentable(list(GPUS.values()), "AMD", book()))
