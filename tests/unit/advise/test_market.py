"""What is available: sold new, sold used, for rent."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest

from gpuwise.advise.candidates import (
    Wanted,
    buy_kind,
    buyable,
    price_for,
    rentable,
    served,
    whole,
)
from gpuwise.advise.offers import offered
from gpuwise.hardware.catalog import load_catalog
from gpuwise.money.costs import in_server, server_counts, server_for
from gpuwise.money.prices import NEW_MONTHS, PriceBook, launch_price, sold_new

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
    card = GPUS["RTX 2080 Ti"]
    launch, now = launch_price(card), price_for(card, book())
    assert launch is not None
    assert now is not None
    assert (now.kind, now.usd < launch.usd / 2) == ("used", True)
    nobody = replace(card, name="of a maker without prices", vendor="Matrox")
    assert launch_price(nobody) is not None
    assert price_for(nobody, book()) is None
    own = price_for(card, book("RTX 2080 Ti=300"))
    assert own is not None
    assert own.usd == 300
    assert buy_kind(card, own, DAY) == "buy used"


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


def test_laptops_are_offered_with_an_estimate_or_without_a_price() -> None:
    found = buyable(list(GPUS.values()), Wanted(laptop=True), book())
    assert found
    assert all((gpu.segment == "laptop" or gpu.vendor == "Apple") and whole(gpu) for gpu, _ in found)
    prices = {gpu.name: price for gpu, price in found}
    estimated = prices["RTX 5070 Laptop 12GB"]
    assert estimated is not None
    assert (estimated.estimated, estimated.note) == (True, "a whole laptop")
    assert prices["RTX PRO 5000 Blackwell Mobile"] is None  # what a workstation laptop costs depends on its maker


def test_an_older_card_is_sold_used_at_the_price_given_or_estimated() -> None:
    for asked, usd in ((book(), None), (book("RTX 3080 Ti=350"), 350)):
        prices = {gpu.name: price for gpu, price in buyable(list(GPUS.values()), Wanted(), asked)}
        price = prices["RTX 3080 Ti"]
        assert price is not None
        assert buy_kind(GPUS["RTX 3080 Ti"], price, DAY) == "buy used"
        assert usd is None or price.usd == usd


def test_cards_that_current_software_has_dropped_are_not_offered_for_sale() -> None:
    found = {one.gpu.name: one for one in offered(list(GPUS.values()), book())}
    assert not served(GPUS["Quadro P6000"])
    assert found["Quadro P6000"].price is None
    assert found["RTX 3090"].price is not None
    assert [name for name, one in found.items() if one.price is not None and not served(one.gpu)] == []


# ---------------------------------------------------------------- servers


def test_servers_are_sold_only_where_they_are_wished_for() -> None:
    plain, servers = (
        {gpu.name for gpu, _ in buyable(list(GPUS.values()), Wanted(servers=wish), book())} for wish in (False, True)
    )
    assert not any(in_server(GPUS[name]) for name in plain)
    assert {"H200", "H100 NVL 94GB"} <= servers - plain
    assert all(in_server(GPUS[name]) for name in servers - plain)


def test_modules_are_bought_in_eights_and_cards_one_by_one() -> None:
    counts = (1, 2, 3, 4, 8, 16)
    for name, bought in {
        "B200": (8, 16),
        "H100 SXM 80GB": (8, 16),
        "H100 NVL 94GB": (1, 2, 3, 4, 8),
        "L40S": (1, 2, 3, 4, 8),
    }.items():
        assert server_counts(GPUS[name], counts) == bought
        assert server_counts(GPUS[name], counts[:4]) == tuple(count for count in bought if count < 8)
    modules, cards = server_for(GPUS["B200"]), server_for(GPUS["L40S"], 8)
    assert modules.most_gpus == cards.most_gpus == 8
    assert modules.usd > cards.usd


# ---------------------------------------------------------------- to rent


def test_what_one_cloud_alone_asks_is_no_market() -> None:
    for _, offer in rentable(list(GPUS.values()), "", book()):
        assert len(offer.clouds) >= 2
        assert offer.low_usd_per_gpu_hour <= offer.usd_per_gpu_hour <= offer.high_usd_per_gpu_hour
    assert all(gpu.vendor == "AMD" for gpu, _ in rentable(list(GPUS.values()), "AMD", book()))
