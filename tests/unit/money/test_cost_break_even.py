"""When owning breaks even: in step with the totals, the resale value counted, and for several cards in one machine."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

import gpuwise
from gpuwise.core.errors import GpuwiseError
from gpuwise.hardware.catalog import load_catalog
from gpuwise.money import prices as money_prices
from gpuwise.money.costs import MACHINE_USD, machine_usd, more_machine_usd
from gpuwise.money.prices import age_of_machine
from gpuwise.questions.cost.text import render

YEAR_DAYS = 365.0


@pytest.fixture(autouse=True)
def _a_given_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(money_prices, "today", lambda: date(2026, 11, 16))


@pytest.mark.parametrize("years", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("resale", [None, 0.0, 300.0])
def test_owning_is_cheaper_over_the_horizon_exactly_where_it_breaks_even_within_it(years: float, resale: float | None) -> None:
    answer = gpuwise.cost(gpu="RTX 4090", cloud_gpu="A100", years=years, resale=resale)
    assert len(answer.break_evens) > 5
    for row in answer.break_evens:
        assert row.days_with_resale is not None
        assert row.days is not None
        assert (row.days_with_resale < YEAR_DAYS * years) == (row.own_usd < row.rent_usd)
        assert row.days_with_resale <= row.days
        assert (row.days_with_resale == row.days) == (resale == 0.0)


def test_the_text_tells_both_break_evens() -> None:
    answer = gpuwise.cost(gpu="RTX 4090", cloud_gpu="A100", years=0.5)
    assert answer.here is not None
    assert (
        f"{answer.here.days_with_resale:,.0f} days  at 15% utilisation, with the resale value; {answer.here.days:,.0f} days"
        in render(answer)
    )
    assert "without electricity" in render(gpuwise.cost(gpu="RTX 4090", cloud_gpu="A100", resale=0.0))


def test_a_count_before_the_name_is_the_same_as_gpus() -> None:
    one, other = gpuwise.cost(gpu="2x RTX 3090"), gpuwise.cost(gpu="RTX 3090", gpus=2)
    assert one.to_dict() == other.to_dict()
    assert one.query.gpu_count == 2
    with pytest.raises(GpuwiseError, match="both give a number"):
        gpuwise.cost(gpu="2x RTX 3090", gpus=4)


def test_several_cards_need_a_larger_machine_as_in_which() -> None:
    card = load_catalog().find("RTX 3090").gpu
    query = gpuwise.cost(gpu="4x RTX 3090").query
    age = age_of_machine(card, query.price, query.book.today)
    assert age > 1
    assert query.machine_usd == machine_usd(card, 4, age)
    option = next(one for one in gpuwise.which(budget="3000", model=["llama-3-70b"]).options if one.name == "2x RTX 3090")
    assert option.price is not None
    assert option.upfront_usd == pytest.approx(2 * option.price.usd + more_machine_usd(card, 2, age))


def test_more_cards_never_need_a_cheaper_machine() -> None:
    for name in ("RTX 5090", "RTX 3060 12GB", "P40", "L40S"):
        costs = [machine_usd(load_catalog().find(name).gpu, count) for count in range(1, 40)]
        assert costs == sorted(costs)
    card = load_catalog().find("RTX 5090").gpu
    assert machine_usd(card, 1) == MACHINE_USD
    assert machine_usd(card, 16) == 2 * machine_usd(card, 8)


def test_a_machine_is_priced_by_what_it_carries() -> None:
    small, large, old = (load_catalog().find(name).gpu for name in ("RTX 3060 12GB", "RTX 5090", "P40"))
    assert machine_usd(large, 2) - machine_usd(large, 1) > 2 * (machine_usd(small, 2) - machine_usd(small, 1))  # watts
    assert machine_usd(large, 4) > 4000  # a workstation and a second power supply
    assert machine_usd(large, 4, age_years=4) < machine_usd(large, 4) / 2
    assert machine_usd(old, 1) < machine_usd(old, 8) / 4  # places
    assert machine_usd(old, 1, age_years=8) == MACHINE_USD  # nobody buys a new server for an old card
    assert more_machine_usd(large, 4, held=[(small, 4)]) < more_machine_usd(large, 4) / 4  # the slots are there


def test_one_year_is_singular() -> None:
    said = [note.effect for note in gpuwise.cost(gpu="RTX 3090", years=1.0).assumptions if note.name == "resale"]
    assert len(said) == 1
    assert "after 1 year, " in said[0]


def test_no_card_resells_above_what_one_bought_used_today_would() -> None:
    used = gpuwise.cost(gpu="H100 SXM", used=True).ownership
    dear = gpuwise.cost(gpu="H100 SXM", price="25000")
    assert used is not None
    assert dear.ownership is not None
    assert dear.ownership.resale_usd == pytest.approx(used.resale_usd)
    assert any("of today's used price of $" in note.effect for note in dear.assumptions if note.name == "resale")
    cheap = gpuwise.cost(gpu="H100 SXM", price="5000").ownership
    assert cheap is not None
    assert cheap.resale_usd < used.resale_usd


def test_the_resale_value_at_which_the_answer_changes_is_told() -> None:
    ask = {"gpu": "8x H100 SXM", "price": "25000", "machine": 80000.0, "cloud_price": 1.9, "utilization": 0.6}
    told = re.search(r"Owning is cheaper if each GPU resells for more than \$([\d,]+)", gpuwise.cost(**ask).verdict)
    assert told is not None
    turns = 8 * float(told[1].replace(",", ""))
    for resale, cheaper in ((turns - 100, "rent"), (turns + 100, "own")):
        here = gpuwise.cost(**ask, resale=resale).here
        assert here is not None
        assert (here.own_usd < here.rent_usd) == (cheaper == "own")
    assert "resells" not in gpuwise.cost(**ask, resale=turns - 30_000).verdict
    assert "resells" not in gpuwise.cost(gpu="RTX 4090", cloud_price=0.4, hours_per_week=10.0).verdict
