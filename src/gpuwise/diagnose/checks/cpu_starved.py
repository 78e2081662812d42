"""The host has too few cores for what runs on it.

## What it sees
This check looks for a main thread that was ready to run but had no core for at least 5% of the time (Linux counts
this), on cores that are at least 90% in use, or for more loader workers than cores. If other programs cause most of the
load, the finding is a circumstance and ranks behind the causes.

## Why it costs time
Workers, the training process and other programs take turns on the cores. A late launch leaves the GPU idle.

## What to do
Use no more workers than cores, call `torch.set_num_threads(1)` in workers, end other programs, or use a machine with
more cores per GPU.

## How sure
Confidence is medium: the delay is measured, but its effect is not. The upper end of the gain is a step without the
delay. The lower end is a third of that, because other limits remain (assumed).
"""

from __future__ import annotations

from gpuwise.diagnose.types import Finding, Gain
from gpuwise.diagnose.vitals import Vitals

__all__ = ["CODE", "check_live"]

CODE = "cpu_starved"
_BUSY = 0.9
_DELAYED = 0.05
_MOST = 0.9
_OWN = 0.5
_LIKELY = 1 / 3


def check_live(vitals: Vitals) -> Finding | None:
    """Find a main thread delayed on busy cores, or more workers than cores."""
    delayed = min(vitals.delayed_fraction or 0.0, _MOST)
    busy = vitals.cores_used_fraction or 0.0
    crowded = vitals.workers is not None and 0 < vitals.core_count < vitals.workers
    if not crowded and (busy < _BUSY or delayed < _DELAYED):
        return None
    own = vitals.own_cores_fraction
    foreign = not crowded and own is not None and own < _OWN * busy
    whose = "" if own is None else f", {own / max(busy, 1e-9):.0%} of that by this run"
    workers = f"{vitals.workers} loader workers on {vitals.core_count} cores" if crowded else ""
    return Finding(
        code=CODE,
        title=_title(crowded=crowded and delayed < _DELAYED, foreign=foreign),
        seconds_per_step=delayed * vitals.step_s,
        share_fraction=delayed,
        gain=Gain(low=1.0 / (1.0 - _LIKELY * delayed), high=1.0 / (1.0 - delayed)),
        confidence="medium",
        evidence=tuple(
            filter(
                None,
                (f"{busy:.0%} of the cores are in use{whose}; threads wait for a free core {delayed:.0%} of the time", workers),
            )
        ),
        remedy="use no more workers than cores, end other programs, or add cores for each GPU",
        verify="watch again: the wait for a free core should fall below 5%",
        circumstance=foreign,
    )


def _title(*, crowded: bool, foreign: bool) -> str:
    if crowded:
        return "there are more loader workers than cores"
    return "other programs occupy the cores" if foreign else "training waits for a free core"
