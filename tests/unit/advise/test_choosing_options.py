"""Which option is taken: the front, the rule with and without a budget, what the user has."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwise.advise.candidates import Candidate, kept, owned, run_on
from gpuwise.advise.choosing import (
    MOST_ROWS,
    WORTH_A_CHANGE,
    WORTH_SEVERAL,
    UserLimits,
    pareto,
    roomy,
    select,
    shortfall,
)
from gpuwise.advise.jobs import Job
from gpuwise.hardware.catalog import load_catalog
from making_candidates import TERMS, adding_up, buy, hire, price_of, run

NEARLY = 0.90  # an option this near to the fastest may be taken for its price

cards = st.lists(
    st.tuples(st.floats(10, 1e5), st.floats(50, 1e4)).map(lambda pair: buy(*pair)), min_size=1, max_size=12, unique_by=id
)


def figures(option: Candidate) -> tuple[float, float]:
    assert option.total_usd is not None
    return option.run.seconds, option.total_usd


# ---------------------------------------------------------------- the front


@given(cards)
def test_nothing_beats_an_option_of_the_front_and_every_other_is_beaten(options: list[Candidate]) -> None:
    front = pareto(options)
    for option in options:
        time, money = figures(option)
        better = [
            one for one in options if figures(one) != (time, money) and figures(one)[0] <= time and figures(one)[1] <= money
        ]
        assert (figures(option) in [figures(one) for one in front]) == (not better)


@given(cards, st.floats(0.1, 0.999), st.data())
def test_a_price_cut_never_takes_an_option_from_the_front(options: list[Candidate], cut: float, data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(pareto(options)))
    assert chosen.price is not None
    cheaper = buy(chosen.run.seconds, chosen.price.usd * cut)
    others = [option for option in options if option is not chosen]
    assert cheaper in pareto([*others, cheaper])


@given(cards)
def test_the_front_goes_from_fast_and_dear_to_slow_and_cheap(options: list[Candidate]) -> None:
    front = [figures(option) for option in pareto(options)]
    assert front == sorted(front)
    assert [money for _, money in front] == sorted((money for _, money in front), reverse=True)


# ---------------------------------------------------------------- the rule


anything = st.one_of(
    st.builds(buy, st.floats(10, 1e4), st.floats(50, 5e3), count=st.sampled_from([1, 1, 2, 4]), gib=st.sampled_from([12, 24])),
    st.builds(hire, st.floats(10, 1e4), st.floats(0.05, 3.0)),
)


@given(st.lists(anything, min_size=1, max_size=12), st.booleans(), st.floats(50, 1e4), st.floats(1, 10))
def test_more_budget_is_never_slower(options: list[Candidate], owns: bool, budget: float, times: float) -> None:
    have = [kept(run(5000.0, name="old"), TERMS)] if owns else []
    less, more = (select([*options, *have], UserLimits(budget_usd=amount)).best for amount in (budget, budget * times))
    if less is not None:
        assert more is not None
        assert more.run.seconds <= less.run.seconds


@given(cards, st.floats(50, 1e4))
def test_what_is_taken_keeps_to_the_budget_and_is_nearly_the_fastest_that_does(options: list[Candidate], budget: float) -> None:
    limits = UserLimits(budget_usd=budget)
    best = select(options, limits).best
    able = [option for option in options if not shortfall(option, limits)]
    assert (best is None) == (not able)
    if best is not None:
        assert best.upfront_usd is not None
        assert best.upfront_usd <= budget
        assert best.run.seconds <= min(option.run.seconds for option in able) / NEARLY * (1 + 1e-9)


@given(cards)
def test_without_a_budget_the_runs_that_cost_least_are_taken(options: list[Candidate]) -> None:
    best = select(options, UserLimits()).best
    assert best is not None
    assert best.usd_per_run == min(option.usd_per_run for option in options if option.usd_per_run is not None)


@given(cards, st.floats(0.05, 5.0), st.floats(50, 1e4))
def test_a_handful_of_different_options_is_shown_with_the_best_first(
    options: list[Candidate], rate: float, budget: float
) -> None:
    chosen = select([*options, hire(100.0, rate), kept(run(5000.0, name="old"), TERMS)], UserLimits(budget_usd=budget))
    assert len(chosen.shown) <= MOST_ROWS
    assert len({id(option) for option in chosen.shown}) == len(chosen.shown)
    assert chosen.best is None or chosen.shown[0] is chosen.best


def test_a_nearly_as_fast_and_clearly_cheaper_card_is_taken() -> None:
    fast, near = buy(100.0, 1000.0), buy(105.0, 700.0)
    assert select([fast, near], UserLimits(budget_usd=1500)).best is near
    assert select([fast, buy(105.0, 900.0)], UserLimits(budget_usd=1500)).best is fast


def test_of_cards_that_differ_by_less_than_the_error_the_cheaper_is_taken() -> None:
    for seconds, taken in ((101.0, 950.0), (103.0, 1000.0)):
        best = select([buy(100.0, 1000.0), buy(seconds, 950.0)], UserLimits(budget_usd=2000.0)).best
        assert best is not None
        assert best.upfront_usd == taken


def test_several_cards_are_taken_only_where_they_are_much_faster() -> None:
    one = buy(100.0, 700.0)
    assert select([one, buy(101.0 / WORTH_SEVERAL, 400.0, count=2)], UserLimits(budget_usd=1000)).best is one
    several = buy(100.0 / WORTH_SEVERAL, 400.0, count=2)
    assert select([one, several], UserLimits(budget_usd=1000)).best is several


def test_several_cards_whose_memory_adds_up_need_a_smaller_lead() -> None:
    one, several = buy(100.0, 700.0), buy(100.0 / WORTH_A_CHANGE, 400.0, count=2)
    assert select([one, several], UserLimits(budget_usd=1000)).best is one
    together = adding_up(several)
    assert select([one, together], UserLimits(budget_usd=1000)).best is together
    late = adding_up(buy(101.0 / WORTH_A_CHANGE, 900.0, count=2))
    assert select([one, late], UserLimits(budget_usd=1000)).best is one


@pytest.mark.parametrize(("single_s", "takes_the_set"), [(98.0, False), (100.0, True)])
def test_a_set_is_not_taken_where_one_card_costs_less_and_is_no_slower(single_s: float, takes_the_set: bool) -> None:
    """A fast card makes way for a set that is nearly as fast and clearly cheaper, unless a single card beats both."""
    cheap, single, fast = buy(106.0, 1104.0), buy(single_s, 1436.0), buy(89.5, 2431.0)
    together = adding_up(buy(99.0, 900.0, count=2))
    best = select([cheap, single, fast, together], UserLimits(budget_usd=3000)).best
    assert best is (together if takes_the_set else single)


@pytest.mark.parametrize(("of_one", "of_each", "taken"), [(16, 12, 1), (16, 16, 2), (32, 24, 2), (32, 16, 1)])
def test_each_of_several_cards_has_the_memory_of_the_single_one_or_24_gb(of_one: float, of_each: float, taken: int) -> None:
    one, several = buy(100.0, 700.0, gib=of_one), buy(40.0, 400.0, count=2, gib=of_each)
    best = select([one, several], UserLimits(budget_usd=1000)).best
    assert best is not None
    assert best.gpu_count == taken


@pytest.mark.parametrize(("has", "sold", "taken"), [(24, 12, "keep"), (24, 24, "buy new"), (48, 24, "buy new"), (48, 16, "keep")])
def test_a_card_with_less_memory_than_the_one_at_hand_is_a_step_back(has: float, sold: float, taken: str) -> None:
    mine, fast = kept(run(300.0, name="mine", gib=has), TERMS), buy(100.0, 500.0, gib=sold)
    assert roomy([mine, fast]) == ([fast] if taken == "buy new" else [])
    best = select([mine, fast], UserLimits(budget_usd=500)).best
    assert best is not None
    assert best.kind == taken


def test_without_a_card_at_hand_any_memory_will_do() -> None:
    small = buy(100.0, 500.0, gib=4)
    assert roomy([small]) == [small]
    assert select([small], UserLimits(budget_usd=500)).best is small
    cpu = kept(replace(run(3000.0), gpu=load_catalog().find("Ryzen 7 5800X").gpu), TERMS)  # its memory is that of the machine
    assert roomy([cpu, small]) == [small]


def test_one_more_of_the_card_at_hand_costs_one_card_and_works_with_both() -> None:
    mine, price = kept(run(100.0), TERMS), price_of(500.0)
    more = owned(run(55.0, count=2), TERMS, price, kind="buy used", added=1)
    pair = owned(run(55.0, count=2), TERMS, price, kind="buy used")
    assert (more.name, more.bought_count, pair.bought_count) == ("2x RTX 3090 (1 more)", 1, 2)
    assert (more.upfront_usd, pair.upfront_usd) == (500.0, 1000.0)
    assert more.resale_usd == pytest.approx(pair.resale_usd / 2)
    assert (more.energy_kwh, more.machine_usd) == (pair.energy_kwh, pytest.approx(pair.machine_usd))
    assert select([mine, more, pair], UserLimits(budget_usd=600)).best is more


def test_what_one_has_is_kept_unless_something_is_clearly_faster() -> None:
    mine = kept(run(120.0, name="mine"), TERMS)
    assert select([mine, buy(100.0, 300.0)], UserLimits(budget_usd=500)).best is mine
    fast = buy(60.0, 300.0)
    assert select([mine, fast], UserLimits(budget_usd=500)).best is fast


def test_nothing_slower_than_the_own_card_is_shown_to_rent_or_to_save() -> None:
    mine = kept(run(100.0, name="mine"), TERMS)
    slow, fast = (hire(seconds, 0.05, name=f"{seconds}") for seconds in (200.0, 50.0))
    small = replace(buy(150.0, 10.0), total_usd=1.0)  # saves electricity
    assert set(select([mine, slow, small], UserLimits(budget_usd=500)).shown) == {mine}
    shown = select([mine, slow, fast, small, buy(80.0, 300.0)], UserLimits(budget_usd=500)).shown
    assert {option.run.seconds for option in shown} == {100.0, 50.0, 80.0}


def test_of_several_cards_that_one_has_the_fastest_that_fits_counts() -> None:
    slow, fast = (kept(run(seconds, name=f"{seconds}"), TERMS) for seconds in (200.0, 100.0))
    small = kept(run(50.0, name="small", fits=False), TERMS)
    assert select([slow, small, fast], UserLimits()).best is fast


def test_renting_wins_where_it_saves_a_quarter_or_nothing_can_be_bought() -> None:
    card, cheap = buy(100.0, 1000.0), hire(100.0, 0.05)
    assert card.total_usd is not None
    even = card.total_usd / TERMS.hours
    saving, dear = hire(100.0, 0.749 * even), hire(100.0, 0.751 * even)
    assert select([card, saving], UserLimits()).best is saving
    assert select([card, dear], UserLimits()).best is card
    assert select([card, cheap], UserLimits(budget_usd=500)).best is cheap


def test_only_rented_gpus_about_as_fast_count_against_buying() -> None:
    card, slow, near = buy(100.0, 1000.0), hire(100.1 / NEARLY, 0.05, name="slow"), hire(99.9 / NEARLY, 0.06, name="near")
    chosen = select([card, slow], UserLimits())
    assert (chosen.best, chosen.rented, chosen.hired) == (card, slow, None)
    chosen = select([card, slow, near], UserLimits())
    assert (chosen.best, chosen.rented, chosen.hired) == (near, slow, near)


def test_where_nothing_is_bought_all_rents_that_nothing_beats_are_shown() -> None:
    rents = [hire(100.0, 2.0, name="fast"), hire(300.0, 0.3, name="slow"), hire(310.0, 0.4, name="beaten")]
    chosen = select(rents, UserLimits())
    assert {option.name for option in chosen.shown} == {"fast", "slow"}


def test_a_rented_set_that_is_better_in_everything_is_taken() -> None:
    one, better, dearer = hire(100.0, 0.6), hire(95.0, 0.25, count=2), hire(95.0, 0.35, count=2)
    limits = UserLimits(budget_usd=1e5)
    assert select([one, better], limits).best is better
    assert select([one, dearer], limits).best is one


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize(
    ("option", "limits", "word"),
    [
        (buy(100.0, 1000.0, fits=False), UserLimits(), "memory"),
        (buy(100.0, 1000.0), UserLimits(deadline_s=99.0), "deadline"),
        (buy(100.0, 1000.0), UserLimits(budget_usd=999.0), "budget"),
        (buy(100.0, 1000.0), UserLimits(budget_usd=1000.0, deadline_s=100.0), ""),
        (hire(100.0, 1.0), UserLimits(budget_usd=100.0), "budget"),
        (replace(buy(100.0, 1.0), upfront_usd=None, total_usd=None), UserLimits(budget_usd=10.0), "price"),
    ],
)
def test_the_broken_limit_is_named(option: Candidate, limits: UserLimits, word: str) -> None:
    assert shortfall(option, limits) == word


# ---------------------------------------------------------------- a run on several GPUs


@given(st.integers(1, 8), st.floats(1.0, 3.0))
def test_a_run_takes_what_its_pace_says(count: int, slower: float) -> None:
    alone, several = run(100.0).paces[0], run(100.0 / count * slower, count=count).paces[0]
    job = Job(model="m", samples=1e6)
    whole, shared = (run_on([job], [pace], 0.8, 1.2) for pace in (alone, several))
    assert (shared.gpu_count, shared.fits) == (count, True)
    assert shared.seconds == pytest.approx(whole.seconds / count * slower)
    assert shared.samples_per_s == pytest.approx(several.samples_per_s)
