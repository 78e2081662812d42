"""The prices and hours at which an answer changes are exactly those at which both sides cost the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpuwise.advise.candidates import Candidate, Terms, owned
from gpuwise.advise.choosing import UserLimits, even_hours_per_week, select
from gpuwise.questions.which.changes import at_price, price_flips
from making_candidates import TERMS, buy, hire, price_of, run

seconds = st.floats(10, 1e5)
dollars = st.floats(50, 1e4)
shares = st.floats(0.01, 1.0)
HALVINGS = 16  # of the way to the end of the range: so exactly is the threshold known


def worked(share: float) -> Terms:
    return replace(TERMS, utilization=share)


# ---------------------------------------------------------------- prices


@given(seconds, dollars, dollars, st.integers(1, 4), shares, st.sampled_from(["buy new", "buy used"]))
def test_at_another_price_an_option_costs_what_it_would_if_bought_for_it(
    time: float, usd: float, other: float, count: int, share: float, kind: str
) -> None:
    terms = worked(share)
    moved = at_price(owned(run(time, count=count), terms, price_of(usd), kind=kind), other, terms)
    meant = owned(run(time, count=count), terms, price_of(other), kind=kind)
    assert moved.upfront_usd == pytest.approx(meant.upfront_usd)
    assert moved.total_usd == pytest.approx(meant.total_usd)
    assert moved.resale_usd == pytest.approx(meant.resale_usd)


@settings(deadline=None)
@given(
    st.lists(st.tuples(seconds, dollars, st.integers(1, 2)), min_size=2, max_size=5),
    st.one_of(st.none(), st.floats(100, 1e4)),
    st.floats(0.05, 3.0),
)
def test_the_recommendation_changes_at_the_price_that_is_told_and_not_before(
    drawn: list[tuple[float, float, int]], budget: float | None, rate: float
) -> None:
    cards = [buy(time, usd, count=count, low=0.5, high=2.0, name=f"{place}") for place, (time, usd, count) in enumerate(drawn)]
    cards += [buy(0.6 * drawn[0][0], drawn[0][1], count=4, low=0.5, high=2.0, name="0")]  # more of the first
    options, limits = [*cards, hire(drawn[0][0], rate)], UserLimits(budget_usd=budget)
    best = select(options, limits).best
    assume(best is not None)
    assert best is not None

    def chosen(moved: Candidate, usd: float) -> str:
        """What is recommended if this card costs so much, however many of it are bought."""
        found = select([at_price(one, usd, TERMS) if one.gpu.name == moved.gpu.name else one for one in options], limits).best
        return found.key if found else "nothing"

    for flip in price_flips(options, limits, TERMS, best):
        price = flip.option.price
        assert price is not None
        assert price.low_usd <= flip.usd <= price.high_usd
        end = price.high_usd if flip.option is best else price.low_usd
        before = flip.usd - 1.01 * (end - price.usd) / 2**HALVINGS  # equal cards change places at once
        assert chosen(flip.option, flip.usd) == flip.then.key != best.key
        assert chosen(flip.option, before) != flip.then.key


def test_a_price_above_the_budget_ends_the_recommendation() -> None:
    fast, slow = buy(100.0, 900.0, high=1.4), buy(200.0, 500.0)
    (flip,) = price_flips([fast, slow], UserLimits(budget_usd=1000.0), TERMS, fast)
    assert (flip.option, flip.then) == (fast, slow)
    assert flip.usd == pytest.approx(1000.0, abs=0.36 * 1000 / 2**HALVINGS)
    assert price_flips([buy(100.0, 700.0, high=1.4), slow], UserLimits(budget_usd=1000.0), TERMS, fast) == []


def test_a_faster_card_is_told_with_the_price_at_which_the_budget_buys_it() -> None:
    slow, fast = buy(200.0, 500.0), buy(100.0, 1300.0, low=0.7)
    (flip,) = price_flips([slow, fast], UserLimits(budget_usd=1000.0), TERMS, slow)
    assert (flip.option, flip.then) == (fast, fast)
    assert flip.usd == pytest.approx(1000.0, abs=0.3 * 1300 / 2**HALVINGS)
    assert price_flips([slow, buy(100.0, 1300.0, low=0.8)], UserLimits(budget_usd=1000.0), TERMS, slow) == []


def test_without_a_budget_both_cards_cost_as_much_a_run_at_the_price_that_is_told() -> None:
    cheap, dear = buy(100.0, 600.0, high=3.0), buy(100.0, 900.0)
    (flip,) = price_flips([cheap, dear], UserLimits(), TERMS, cheap)
    assert flip.then is dear
    assert at_price(cheap, flip.usd, TERMS).usd_per_run == pytest.approx(dear.usd_per_run, rel=2**-HALVINGS)


def test_a_card_twice_as_fast_is_worth_more_than_twice_the_price() -> None:
    """Its machine and its electricity are paid once for twice the runs."""
    slow, fast = buy(100.0, 500.0), buy(50.0, 4000.0, low=0.1)
    (flip,) = price_flips([slow, fast], UserLimits(), TERMS, slow)
    assert flip.option is fast
    assert flip.usd > 1000.0


def test_a_price_without_a_range_changes_nothing() -> None:
    fast, slow = buy(100.0, 900.0), buy(200.0, 500.0)
    assert price_flips([fast, slow], UserLimits(budget_usd=1000.0), TERMS, fast) == []


# ---------------------------------------------------------------- hours


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
    assert own
    assert rent
    if hours == pytest.approx(168 * mine / other):  # the rented GPU would work around the clock, and is still cheaper
        assert rent <= own * (1 + 1e-6)
    else:
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
    unknown = replace(buy(100.0, 500.0), price=None, upfront_usd=None, total_usd=None)
    assert at_price(unknown, 300.0, TERMS) is unknown
    assert price_flips([unknown], UserLimits(), TERMS, unknown) == []
    assert even_hours_per_week(unknown, hire(100.0, 1.0), TERMS) is None


def test_rent_below_the_price_of_electricity_is_cheaper_at_any_hours() -> None:
    assert even_hours_per_week(buy(100.0, 500.0), hire(100.0, 0.001), TERMS) is None
