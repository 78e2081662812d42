"""One rank keeps the others waiting.

## What it sees
Collectives that take much longer on some ranks than on others. A collective ends everywhere at once, so the rank that spends
least time in it came last: the others waited for it. Told from 5 % of the step on.

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

from gpuwise.diagnose.ranks import Rank, waiting_s
from gpuwise.diagnose.types import Abstained, Finding, Gain

__all__ = ["CODE", "check_ranks"]

CODE = "straggler"
_THRESHOLD = 0.05
_SURE = 0.1


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
    waits = waiting_s(ranks)
    if waits is None:
        return Abstained(
            code=CODE,
            reason="the ranks hold no collectives that can be set against one another",
            record_next="record the same steps on all ranks",
        )
    latest = int(np.argmin(waits))
    step = float(np.median([rank.view.step_s for rank in ranks]))
    lost = float(np.median(waits) - waits[latest])
    share = lost / step
    if share < _THRESHOLD:
        return None
    high = step / max(step - lost, 0.05 * step)
    steps = min(rank.view.scene.steps.steady_count for rank in ranks)
    others = ", ".join(f"{rank.label} {wait * 1e3:.2f}" for rank, wait in zip(ranks, waits, strict=True))
    return Finding(
        code=CODE,
        title=f"{ranks[latest].label} comes last to the collectives; the others wait for it",
        seconds_per_step=lost,
        share_fraction=share,
        gain=Gain(low=step / max(step - 0.5 * lost, 0.05 * step), high=high),
        confidence="low" if steps < 3 else "high" if share >= _SURE else "medium",
        evidence=(f"time in collectives, ms a step: {others}",)
        + (("only one step was recorded: thin evidence",) if steps < 2 else ()),
        remedy=f"look at what {ranks[latest].label} does before its collectives: loader, clock, share of the data",
        verify="the time in collectives should be alike on all ranks",
    )
