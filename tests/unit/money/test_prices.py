"""Whose price counts, and how old it is."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpuwise
from gpuwise.core.errors import BadFile, BadValue, GpuwiseError, UnknownName
from gpuwise.core.provenance import Basis
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.money import tables
from gpuwise.money.currency import USD, parse_currency
from gpuwise.money.given import given_price, parse_price, read_price_file
from gpuwise.money.prices import PriceBook, data_date, price_now, price_text, rent_median, rent_offers, stale_sentence
from gpuwise.money.tables import refreshed_folder, refreshed_path
from gpuwise.money.tariffs import parse_bills, parse_tariff
from gpuwise.money.types import Price

NOW = date(2026, 11, 16)


@pytest.fixture(autouse=True)
def _no_refreshed_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_DATA", str(tmp_path / "data"))


def gpu(name: str) -> Gpu:
    return load_catalog().find(name).gpu


def test_the_users_price_comes_first() -> None:
    book = PriceBook.of(prices=["rtx3090=700"], today=NOW)
    found = price_now(gpu("RTX 3090"), book)
    assert found is not None
    assert (found.usd, found.kind) == (700, "given")


def test_a_typed_price_beats_the_file_and_both_know_their_currency(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text('currency = "EUR=1.10"\n[buy]\n"RTX 3090" = 600\n"RTX 4090" = 1500\n', encoding="utf-8")
    book = PriceBook.of(prices=["RTX 3090=500"], file=file, currency="GBP=1.25", today=NOW)
    assert book.given["RTX 3090"].usd == pytest.approx(625)
    assert book.given["RTX 4090"].usd == pytest.approx(1650)


def test_of_a_card_too_old_to_estimate_the_launch_price_is_taken_and_its_age_told() -> None:
    found = price_now(gpu("GTX 980 Ti"), PriceBook.of(today=NOW))
    assert found is not None
    assert found.kind == "launch"
    assert price_text(found, NOW) == "launch price in 2015-06, eleven years old"
    assert '--price "GTX 980 Ti=…"' in stale_sentence(found, NOW)
    assert price_now(gpu("GTX 980 Ti"), PriceBook.of(today=NOW), "used") is None


@pytest.mark.parametrize(("day", "age"), [(1, "two months old"), (30, "two months old")])
def test_the_age_of_a_price_is_counted_from_the_month_it_shows(day: int, age: str) -> None:
    price = given_price("RTX 3090", 700.0, date(2026, 9, day))
    sold = replace(price, kind="used")
    assert price_text(sold, date(2026, 11, 17)) == f"used price in 2026-09, {age}"


# ---------------------------------------------------------------- which of the published prices


def row(usd: float, days_old: int, kind: str = "used", name: str = "RTX 3090") -> Price:
    """A published price of so many days ago."""
    dated = NOW - timedelta(days=days_old)
    return Price(
        gpu=name,
        kind=kind,
        usd=usd,
        low_usd=usd - 50,
        high_usd=usd + 50,
        dated=dated,
        source=f"{usd:g} {kind}",
        basis=Basis.DATABASE,
    )


def now(monkeypatch: pytest.MonkeyPatch, rows: list[Price], condition: str = "any", name: str = "RTX 3090") -> Price:
    """The price of a card where only these are published."""
    monkeypatch.setattr(tables, "market_of", lambda gpu: tuple(one for one in rows if one.gpu == gpu))
    found = price_now(gpu(name), PriceBook.of(today=NOW), condition)
    assert found is not None
    return found


def test_the_median_of_the_newest_prices_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    together = [row(800.0, 20), row(1000.0, 60), row(900.0, 95)]
    found = now(monkeypatch, [*together, row(100.0, 96)])
    assert (found.usd, found.kind, found.dated) == (900.0, "used", NOW - timedelta(days=20))
    assert (found.low_usd, found.high_usd) == (750.0, 1050.0)
    assert all(one.source in found.source for one in together)
    assert found.note == "the median of 3 prices"
    assert not found.estimated


def test_one_odd_offer_in_five_does_not_stretch_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    found = now(monkeypatch, [row(usd, 10) for usd in (100.0, 800.0, 900.0, 1000.0, 1100.0)])
    assert (found.low_usd, found.usd, found.high_usd) == (750.0, 900.0, 1050.0)


def test_prices_older_than_half_a_year_give_way_to_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    assert now(monkeypatch, [row(800.0, 180)]).usd == 800.0
    found = now(monkeypatch, [row(800.0, 181)])
    assert (found.estimated, found.basis, found.kind) == (True, Basis.FITTED, "used")


def test_older_prices_come_before_the_launch_price(monkeypatch: pytest.MonkeyPatch) -> None:
    found = now(monkeypatch, [row(1300.0, 400, "new")], "new")  # no shop sells it any more, so nothing is estimated
    assert (found.usd, found.kind, found.estimated) == (1300.0, "new", False)
    assert now(monkeypatch, [], "new").kind == "launch"


def test_the_lower_published_price_counts_where_any_condition_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [row(700.0, 10), row(900.0, 10, "new"), row(2500.0, 10, name="RTX 5090"), row(3000.0, 10, "new", "RTX 5090")]
    assert [now(monkeypatch, both, condition).usd for condition in ("any", "new", "used")] == [700.0, 900.0, 700.0]
    assert [now(monkeypatch, both, one, "RTX 5090").usd for one in ("any", "new", "used")] == [2500.0, 3000.0, 2500.0]


# ---------------------------------------------------------------- all commands


def test_all_commands_take_the_same_prices_of_a_card() -> None:
    for name in ("RTX 3090", "RTX 4090"):
        listed = gpuwise.prices(name).rows[0].price
        assert listed is not None
        assert gpuwise.cost(gpu=name).query.price == listed
        compared = gpuwise.compare([name, "RTX 5090"], model=["resnet18"])
        assert compared.deals[0].price_usd == listed.usd
        found = gpuwise.which(model=["resnet18"], have=["GTX 1080 Ti"])
        assert {option.price for option in found.every if option.gpu.name == name and option.price} == {listed}


def test_a_gpu_nobody_priced_has_no_price() -> None:
    assert price_now(gpu("GH200 96GB"), PriceBook.of(today=NOW)) is None


def test_offers_come_cheapest_first_and_the_middle_leaves_auctions_out() -> None:
    book = PriceBook.of(today=NOW)
    offers = rent_offers(gpu("H100 SXM 80GB"), book)
    assert [offer.usd_per_gpu_hour for offer in offers] == sorted(offer.usd_per_gpu_hour for offer in offers)
    found = rent_median(gpu("H100 SXM 80GB"), book)
    assert found is not None
    assert "mithril" in {offer.cloud for offer in offers} - set(found.clouds)
    assert found.low_usd_per_gpu_hour <= found.usd_per_gpu_hour <= found.high_usd_per_gpu_hour
    assert "gcp" not in (rent_median(gpu("T4"), book) or found).clouds


def test_a_gpu_that_only_comes_without_its_machine_says_so() -> None:
    found = rent_median(gpu("P4"), PriceBook.of(today=NOW))
    assert found is not None
    assert "billed separately" in found.note


def test_the_users_rent_replaces_the_table(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text('[rent]\n"RTX 3090" = { ondemand = 0.4, spot = 0.2, cloud = "mine" }\n', encoding="utf-8")
    (offer,) = rent_offers(gpu("RTX 3090"), PriceBook.of(file=file, today=NOW))
    assert (offer.cloud, offer.usd_per_gpu_hour, offer.spot_usd_per_gpu_hour) == ("mine", 0.4, 0.2)


def test_the_date_of_the_data_is_that_of_the_newest_offer() -> None:
    assert data_date(PriceBook.of(today=NOW)) == date(2026, 8, 22)


def test_refreshed_prices_replace_the_shipped_ones_of_their_clouds() -> None:
    header = ",".join(tables.OFFER_COLUMNS)
    refreshed_folder().mkdir()
    refreshed_path().write_text(f"{header}\naws,RTX 3090,cloud,1.5,1.5,,yes,2026-11-10,gpuhunt,\n", encoding="utf-8")
    book = PriceBook.of(today=NOW)
    assert {offer.cloud for offer in rent_offers(gpu("RTX 3090"), book)} == {"vast", "runpod", "aws"}
    assert "aws" not in {offer.cloud for offer in rent_offers(gpu("T4"), book)}
    assert data_date(book) == date(2026, 11, 10)
    refreshed_path().write_text("cut", encoding="utf-8")
    with pytest.raises(BadFile, match="not a table of rental offers"):
        PriceBook.of(today=NOW)


@pytest.mark.parametrize("text", ["RTX 3090", "=700", "RTX 3090=", "RTX 3090=cheap", "RTX 3090=0", "RTX 3090=-5", "RTX 3090=nan"])
def test_bad_prices_are_refused_with_a_hint(text: str) -> None:
    with pytest.raises(BadValue) as caught:
        PriceBook.of(prices=[text], today=NOW)
    assert "--price" in caught.value.hint


@pytest.mark.parametrize("text", ["EUR", "EUR=", "EUR=x", "EUR=0", "EUR=-1", "EUR=nan", "EUR=inf", "USD=2"])
def test_bad_rates_are_refused(text: str) -> None:
    with pytest.raises(BadValue) as caught:
        parse_currency(text)
    assert "--currency EUR=1.08" in caught.value.hint


def test_an_unknown_currency_is_refused() -> None:
    with pytest.raises(UnknownName, match="unknown currency 'EUX'"):
        parse_currency("EUX=1.1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[buy]\n"RTX 3090" = "cheap"', "is not a (valid )?number"),
        ('[buy]\n"RTX 3090" = true', "is not a (valid )?number"),
        ('[buy]\n"RTX 3090" = -3', "must be above zero"),
        ('[buy]\n"RTX 3090" = nan', "must be a finite number"),
        ('[buy]\n"RTX 30900" = 3', "unknown GPU"),
        ("buy = 3", "must be a section"),
        ("[sell]", "unknown key 'sell'"),
        ('[rent]\n"RTX 3090" = { spot = 1.0 }', "no `ondemand`"),
        ('[rent]\n"RTX 3090" = { ondemand = 1.0, weekly = 2 }', "unknown key 'weekly'"),
        ("dated = 2030-01-01", "must be a date no later than today"),
        ('dated = "soon"', "must be a date no later than today"),
        ('currency = "XXX=1"', "unknown currency"),
        ("[buy", "not a price file"),
    ],
)
def test_bad_price_files_are_refused(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(GpuwiseError, match=message) as caught:
        PriceBook.of(file=file, today=NOW)
    assert caught.value.hint


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode), st.just(b"a = " + b"[" * 5000)))
def test_any_bytes_are_a_price_file_or_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "any.toml").write_bytes(data)
    with contextlib.suppress(GpuwiseError):
        PriceBook.of(file=tmp_path / "any.toml", today=NOW)


@given(st.text(max_size=40))
def test_any_text_is_a_price_a_currency_and_a_tariff_or_refused(text: str) -> None:
    for read in (parse_currency, parse_tariff, parse_bills, lambda one: parse_price(one, USD, NOW)):
        with contextlib.suppress(GpuwiseError):
            read(text)


@pytest.mark.parametrize("text", ["RTX 3090=700,50", "RTX 3090=1,4,99"])
def test_a_comma_that_could_be_a_decimal_point_is_refused(text: str) -> None:
    with pytest.raises(BadValue, match="is not a valid number"):
        PriceBook.of(prices=[text], today=NOW)


@pytest.mark.parametrize("text", ["$800", "800 USD", "usd 800", "800", " 800$ ", "$800.00", "8e2"])
def test_amounts_are_read_as_people_write_them(text: str) -> None:
    assert USD.read(text, "a budget", "hint") == 800


@pytest.mark.parametrize(
    ("text", "currency"),
    [("€800", "EUR=1.08"), ("800 EUR", "EUR=1.08"), ("$800", "CAD=0.7"), ("£800", "GBP=1.3"), ("800", "CAD=0.7")],
)
def test_a_sign_may_be_of_the_currency_that_was_given(text: str, currency: str) -> None:
    assert parse_currency(currency).read(text, "a budget", "hint") == 800


@pytest.mark.parametrize(("text", "currency"), [("€800", ""), ("800 GBP", "EUR=1.08"), ("$800", "EUR=1.08"), ("¥800", "")])
def test_an_amount_in_another_currency_is_refused(text: str, currency: str) -> None:
    with pytest.raises(BadValue, match=r"is in \w+, but amounts must be in") as caught:
        parse_currency(currency).read(text, "a budget", "hint")
    assert "--currency" in caught.value.hint


@pytest.mark.parametrize("text", ["cheap", "", "800 XXX", "$", "1,5", "800 dollars", "--5", "$€800"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(BadValue):
        USD.read(text, "a budget", "hint")


def test_a_missing_price_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="cannot be read"):
        PriceBook.of(file=tmp_path / "none.toml", today=NOW)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadFile, match="not a price file"):
        PriceBook.of(file=tmp_path / "bytes.toml", today=NOW)


def test_a_price_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(f'[buy]\n"RTX 3090" = 7{"0" * 400}\n', encoding="utf-8")
    with pytest.raises(BadFile, match=r"\[buy\] RTX 3090 is too large"):
        read_price_file(path, NOW)
