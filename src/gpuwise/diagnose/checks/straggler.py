"""One rank keeps the others waiting.

## What it sees
Collectives that take much longer on some ranks than on others. A collective ends everywhere at once, so the rank that spends
least time in it came last: the others waited for it. Told from 5 % of the step on, where it is the same rank in most steps.

## Why it costs time
Every rank goes at the pace of the slowest. A slow loader, a throttled GPU, a busy host or uneven data on one of them costs
all.

## What to do
Look at what the late rank does before its collectives: its loader, its clock and temperature, its share of the data (sequence
lengths, embedding tables).

## How sure
Medium; low with fewer than three steps. The gain supposes that the late rank comes when the median rank does; the lower end
takes half of that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuwise.diagnose.ranks import Rank, late_rank
from gpuwise.diagnose.types import Abstained, Finding, Gain

__all__ = ["CODE", "check_ranks"]

CODE = "straggler"
_THRESHOLD = 0.05
_SURE = 0.1
_OFTEN = 0.7
_THIN = "only one step was recorded: thin evidence"


def check_ranks(ranks: Sequence[Rank]) -> Finding | Abstained | None:
    """Waiting inside collectives, rank by rank."""
    world = max((rank.view.scene.trace.world_size or 0 for rank in ranks), default=0)
    if len(ranks) < 2:
        if world < 2:
            return None
        return Abstained(
            code=CODE,
            reason=f"one rank of {world} is here",
            record_next="give the traces of all ranks: gpuwise why trace_folder/",
        )
    late = late_rank(ranks)
    if late is None:
        return Abstained(
            code=CODE,
            reason="the ranks hold no collectives that can be set against one another",
            record_next="record the same steps on all ranks",
        )
    step = float(np.median([rank.view.step_s for rank in ranks]))
    share = late.lost_s / step
    if share < _THRESHOLD or late.often_fraction < _OFTEN:
        return None
    name = ranks[late.place].label
    others = ", ".join(f"{rank.label} {wait * 1e3:.2f}" for rank, wait in zip(ranks, late.waits_s, strict=True))
    return Finding(
        code=CODE,
        title=f"{name} comes last to the collectives; the others wait for it",
        seconds_per_step=late.lost_s,
        share_fraction=share,
        gain=Gain(low=step / max(step - 0.5 * late.lost_s, 0.05 * step), high=step / max(step - late.lost_s, 0.05 * step)),
        confidence="low" if late.step_count < 3 else "high" if share >= _SURE else "medium",
        evidence=(
            f"time in collectives, ms a step: {others}",
            f"last in {late.often_fraction:.0%} of {late.step_count} steps" if late.step_count > 1 else _THIN,
        ),
        remedy=f"look at what {name} does before its collectives: loader, clock, share of the data",
        verify="the time in collectives should be alike on all ranks",
    )
