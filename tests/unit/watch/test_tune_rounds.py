"""Rounds of runs and what is made of them, with runs that are made up."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwise.live.tune.combine import product, together, without_least
from gpuwise.live.tune.rounds import measured
from gpuwise.live.tune.types import BASELINE, Change, Gain, Trial, Variant, gain_of

FAST, SLOW, BROKEN = (Change("compile", "on"),), (Change("batch", "64"),), (Change("precision", "amp"),)


class Clock:
    """Seconds that pass only when something runs."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def runner(clock: Clock, took: Callable[[Variant], float], log: list[Variant]) -> Callable[[Variant], Trial]:
    def run(variant: Variant) -> Trial:
        clock.now += 10.0
        log.append(variant)
        if variant == BROKEN:
            return Trial(fault="out of memory", kind="memory")
        return Trial(batch=10, step_s=took(variant))

    return run


def steady(variant: Variant) -> float:
    return {BASELINE: 1.0, FAST: 0.5, SLOW: 2.0}[variant]


def test_steady_runs_end_after_three_rounds_and_what_fails_runs_once() -> None:
    clock, log = Clock(), list[Variant]()
    found = measured([FAST, SLOW, BROKEN], runner(clock, steady, log), seconds=1e6, clock=clock)
    assert log[0] == BASELINE
    assert {variant: len(trials) for variant, trials in found.items()} == {BASELINE: 3, FAST: 3, SLOW: 3, BROKEN: 1}
    assert gain_of(found[BASELINE], found[FAST]) == Gain(2.0, 2.0, 2.0, 3)
    assert gain_of(found[BASELINE], found[SLOW]).is_certain is False


def test_unsteady_runs_take_more_rounds_but_end() -> None:
    clock, log, noise = Clock(), list[Variant](), random.Random(1)  # noqa: S311
    found = measured([FAST], runner(clock, lambda variant: noise.uniform(1, 3), log), seconds=1e6, clock=clock)
    assert 3 < len(found[FAST]) <= 6


def test_the_order_differs_from_round_to_round_and_a_seed_repeats_it() -> None:
    changes = [(Change("workers", str(number)),) for number in range(8)]
    orders = []
    for seed in (1, 1, 2):
        clock, log = Clock(), list[Variant]()
        measured(changes, runner(clock, lambda variant: 1.0, log), seconds=1e6, seed=seed, clock=clock)
        orders.append(log)
    assert orders[0] == orders[1] != orders[2]
    rounds = [orders[0][place : place + 9] for place in (0, 9, 18)]
    assert all(set(one) == {BASELINE, *changes} for one in rounds)
    assert rounds[0] != rounds[1]


@given(seconds=st.floats(1.0, 300.0), count=st.integers(1, 6))
def test_time_is_kept_to_a_run_and_rounds_are_whole(seconds: float, count: int) -> None:
    changes = [(Change("workers", str(number)),) for number in range(count)]
    clock, log = Clock(), list[Variant]()
    found = measured(changes, runner(clock, lambda variant: 1.0, log), seconds=seconds, clock=clock)
    assert clock.now <= seconds + 10.0
    assert found[BASELINE]
    assert all(len(found[change]) in (0, len(found[BASELINE])) for change in changes)


def test_settings_are_left_out_rather_than_rounds() -> None:
    changes = [(Change("workers", str(number)),) for number in range(8)]
    clock, log = Clock(), list[Variant]()
    found = measured(changes, runner(clock, lambda variant: 1.0, log), seconds=100.0, clock=clock)
    counts = [len(found[change]) for change in changes]
    assert sorted(counts) == [0] * 6 + [3] * 2  # of three runs a round, ten seconds each
    assert len(found[BASELINE]) == 3


def test_a_start_that_fails_ends_it_and_one_that_fails_later_keeps_what_was_before() -> None:
    clock, count = Clock(), [0]

    def failing(variant: Variant) -> Trial:
        count[0] += variant == BASELINE
        return Trial(fault="gone", kind="error") if variant == BASELINE and count[0] >= fails_at else Trial(batch=1, step_s=1.0)

    fails_at = 1
    assert measured([FAST], failing, seconds=1e6, clock=clock) == {BASELINE: [Trial(fault="gone", kind="error")], FAST: []}
    fails_at, count[0] = 3, 0
    found = measured([FAST], failing, seconds=1e6, clock=clock)
    assert len(found[BASELINE]) == len(found[FAST]) == 2
    assert not any(trial.fault for trial in found[BASELINE])


def test_a_run_that_is_there_already_is_not_run_again() -> None:
    clock, log = Clock(), list[Variant]()
    measured([FAST], runner(clock, steady, log), seconds=1e6, first=Trial(batch=10, step_s=1.0), clock=clock)
    assert log.count(BASELINE) == 2
    assert log.count(FAST) == 3


def test_what_disturbs_a_whole_round_does_not_change_the_gain() -> None:
    before = [Trial(batch=10, step_s=seconds) for seconds in (1.0, 5.0, 1.2)]
    after = [Trial(batch=20, step_s=seconds) for seconds in (1.0, 5.0, 1.2)]
    assert gain_of(before, after) == pytest.approx((2.0, 2.0, 2.0, 3))


def test_only_what_gained_in_every_round_is_put_together_and_one_value_a_setting() -> None:
    gains = {
        Change("batch", "64"): Gain(1.1, 1.2, 1.3, 3),
        Change("batch", "128"): Gain(1.2, 1.4, 1.5, 3),
        Change("compile", "on"): Gain(0.99, 1.8, 1.9, 3),
        Change("precision", "amp"): Gain(1.5, 1.6, 1.7, 3),
        Change("optimizer", "fused"): Gain(1.1, 1.1, 1.1, 2),
    }
    best = together(gains)
    assert set(best) == {Change("batch", "128"), Change("precision", "amp")}
    assert product(best, gains) == pytest.approx(1.4 * 1.6)
    assert without_least(best, gains) == (Change("precision", "amp"),)
    assert together({}) == ()
