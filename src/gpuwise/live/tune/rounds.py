"""Runs every variant once per round, in a new order each time, until the gains are stable or the time is up."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from gpuwise.live.tune.types import BASELINE, LEAST_ROUNDS, Trial, Variant, gain_of

__all__ = ["measured"]

_MOST_ROUNDS = 6
_EXTRA = 0.6  # of the time may be used by rounds beyond the minimum number
_STABLE = 1.05  # largest over smallest gain of a variant, below which it is stable

Run = Callable[[Variant], Trial]


def measured(
    variants: Sequence[Variant],
    run: Run,
    *,
    seconds: float,
    seed: int = 0,
    first: Trial | None = None,
    progress: Callable[[Variant, int], None] = lambda variant, turn: None,
    clock: Callable[[], float] = time.monotonic,
) -> dict[Variant, list[Trial]]:
    """Run the baseline and each variant, round by round; `first` is an existing run of the baseline.

    A variant that failed is not run again: its last trial has the fault. One without any trial had no time: if the time is too
    short for the minimum number of rounds of all, variants at the end of the first round are left out, not rounds.
    """
    begun, order = clock(), random.Random(seed)  # noqa: S311 - an order, not a secret
    found: dict[Variant, list[Trial]] = {BASELINE: [first] if first else [], **{variant: [] for variant in variants}}
    for turn in range(_MOST_ROUNDS):
        waiting = [variant for variant, trials in found.items() if not any(trial.fault for trial in trials)]
        waiting = [variant for variant in waiting if len(found[variant]) <= turn and (found[variant] or not turn)]
        order.shuffle(waiting)
        if not found[BASELINE]:  # the baseline, with which everything is compared, comes first
            waiting.sort(key=len)
        before = clock()
        for variant in waiting:
            if turn and clock() - begun > seconds:
                return _whole(found, turn)
            if found[BASELINE] and (clock() - begun > seconds or (not turn and _is_enough(found, clock() - begun, seconds))):
                continue
            progress(variant, turn)
            found[variant].append(run(variant))
            if variant == BASELINE and found[BASELINE][-1].fault:
                return _without_last(found, turn) if turn else found
        enough = turn + 1 >= LEAST_ROUNDS
        late = clock() - begun + (clock() - before) > seconds * (_EXTRA if enough else 1.0)
        if late or (enough and _is_stable(found)):
            break
    return found


def _is_enough(found: dict[Variant, list[Trial]], spent_s: float, seconds: float) -> bool:
    """Return whether one more run in the first round would leave too little time for later rounds; one change is always tried."""
    runs = sum(map(len, found.values()))
    tried = any(trials for variant, trials in found.items() if variant)
    return tried and LEAST_ROUNDS * spent_s * (runs + 1) / runs > seconds


def _whole(found: dict[Variant, list[Trial]], rounds: int) -> dict[Variant, list[Trial]]:
    """Drop an unfinished round, unless it shows a fault."""
    return {variant: trials[:rounds] if not any(t.fault for t in trials) else trials for variant, trials in found.items()}


def _without_last(found: dict[Variant, list[Trial]], rounds: int) -> dict[Variant, list[Trial]]:
    """If the baseline no longer runs, use the earlier rounds."""
    return _whole({**found, BASELINE: found[BASELINE][:-1]}, rounds)


def _is_stable(found: dict[Variant, list[Trial]]) -> bool:
    for variant, trials in found.items():
        if variant and trials and not trials[-1].fault:
            gain = gain_of(found[BASELINE], trials)
            if gain.high > _STABLE * gain.low:
                return False
    return True
