"""Prices and hours at which an answer turns are exactly those at which both sides cost the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpuwise.advise.candidates import Terms, owned
from gpuwise.advise.choosing import even_hours_per_week, worth_usd
from making_candidates import TERMS, buy, hire, price_of, run

seconds = st.floats(10, 1e5)
dollars = st.floats(50, 1e4)
shares = st.floats(0.01, 1.0)


def worked(share: float) -> Terms:
    return replace(TERMS, utilization=share)


@given(seconds, seconds, dollars, st.integers(1, 4), shares)
def test_at_its_worth_a_card_costs_as_much_a_run_as_the_other(
    mine: float, other: float, usd: float, count: int, share: float
) -> None:
    terms = worked(share)
    against = buy(other, usd, terms=terms)
    card = run(mine, count=count)
    worth = worth_usd(card, terms, against)
    if worth is None:
        free = owned(card, terms, price_of(0.0), kind="buy used").usd_per_run
        assert free is not None
        assert against.usd_per_run is not None
        assert free >= against.usd_per_run * (1 - 1e-9)
    else:
        assert owned(card, terms, price_of(worth), kind="buy used").usd_per_run == pytest.approx(against.usd_per_run)


def test_a_card_twice_as_fast_is_worth_more_than_twice_the_price() -> None:
    """Its machine and its electricity are paid once for twice the runs."""
    worth = worth_usd(run(50.0), TERMS, buy(100.0, 500.0))
    assert worth is not None
    assert worth > 1000.0


@given(seconds, dollars, seconds, st.floats(0.05, 10), shares)
def test_at_the_even_hours_owning_and_renting_cost_the_same(
    mine: float, usd: float, other: float, rate: float, share: float
) -> None:
    terms = worked(share)
    hours = even_hours_per_week(buy(mine, usd, terms=terms), hire(other, rate, terms=terms), terms)
    assume(hours is not None)
    assert hours is not None
    even = worked(hours / 168)
    own, rent = buy(mine, usd, terms=even).usd_per_run, hire(other, rate, terms=even).usd_per_run
    assert own == pytest.approx(rent, rel=1e-6)


@given(seconds, dollars, seconds, st.floats(0.05, 10), shares, st.floats(1.0, 20.0))
def test_more_hours_a_week_never_make_renting_relatively_better(
    mine: float, usd: float, other: float, rate: float, share: float, times: float
) -> None:
    def rent_over_own(terms: Terms) -> float:
        own, rent = buy(mine, usd, terms=terms).usd_per_run, hire(other, rate, terms=terms).usd_per_run
        assert own
        assert rent
        return rent / own

    assert rent_over_own(worked(min(1.0, share * times))) >= rent_over_own(worked(share)) * (1 - 1e-9)


def test_without_a_known_price_nothing_is_told() -> None:
    unknown = replace(buy(100.0, 500.0), upfront_usd=None, total_usd=None)
    assert worth_usd(run(50.0), TERMS, unknown) is None
    assert even_hours_per_week(unknown, hire(100.0, 1.0), TERMS) is None


def test_rent_below_the_price_of_electricity_is_cheaper_at_any_hours() -> None:
    assert even_hours_per_week(buy(100.0, 500.0), hire(100.0, 0.001), TERMS) is None
