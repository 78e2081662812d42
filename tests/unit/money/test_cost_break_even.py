"""When owning breaks even: in step with the totals, the resale value counted, and for several cards in one machine."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

import gpuwise
from gpuwise.core.errors import GpuwiseError
from gpuwise.money import prices as money_prices
from gpuwise.money.costs import MACHINE_USD, more_machine_usd
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
    assert f"{answer.here.days_with_resale:,.0f} days  at 15% use, with the resale value; {answer.here.days:,.0f} days" in render(
        answer
    )
    assert "without electricity" in render(gpuwise.cost(gpu="RTX 4090", cloud_gpu="A100", resale=0.0))


def test_a_count_before_the_name_is_the_same_as_gpus() -> None:
    one, other = gpuwise.cost(gpu="2x RTX 3090"), gpuwise.cost(gpu="RTX 3090", gpus=2)
    assert one.to_dict() == other.to_dict()
    assert one.query.gpu_count == 2
    with pytest.raises(GpuwiseError, match="both give a number"):
        gpuwise.cost(gpu="2x RTX 3090", gpus=4)


def test_several_cards_need_a_larger_machine_as_in_which() -> None:
    assert gpuwise.cost(gpu="4x RTX 3090").query.machine_usd == MACHINE_USD + more_machine_usd(4)
    option = next(one for one in gpuwise.which(budget="3000", model=["llama-3-70b"]).options if one.name == "2x RTX 3090")
    assert option.price is not None
    assert option.upfront_usd == pytest.approx(2 * option.price.usd + more_machine_usd(2))


def test_more_cards_never_need_a_cheaper_machine() -> None:
    costs = [more_machine_usd(count) for count in range(1, 40)]
    assert costs == sorted(costs)
    assert costs[0] == 0.0
    assert more_machine_usd(16) == 2 * more_machine_usd(8) + MACHINE_USD


def test_one_year_is_singular() -> None:
    said = [note.effect for note in gpuwise.cost(gpu="RTX 3090", years=1.0).assumptions if note.name == "resale"]
    assert len(said) == 1
    assert "after 1 year, " in said[0]
