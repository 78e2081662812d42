"""The power limit is below the default.

## What it sees
The limit that the driver enforces against the one the card is sold with, told from 2 % below it on. For information: it may be
meant.

## Why it costs time
Under full load the clock is lowered until the power fits the limit.

## What to do
`nvidia-smi -pl` sets it back, with the rights to. Often it is worth keeping: the energy saved is larger than the time lost.

## How sure
High for the limit. The upper end is a fifth of the power taken away: a V100 at 80 % of its power was about 4 % slower (Zeus,
NSDI 2023); the lower end is nothing, because a GPU that waits does not meet its limit.
"""

from __future__ import annotations

from gpuwise.diagnose.types import Finding, Gain
from gpuwise.diagnose.vitals import Vitals

__all__ = ["CODE", "check_live"]

CODE = "power_limited"
_BELOW = 0.98
_SLOWER = 0.2  # of the power taken away


def check_live(vitals: Vitals) -> Finding | None:
    """The GPU whose limit is lowest beside its default."""
    lowered = [
        (gpu.power_limit_watts / gpu.power_default_watts, gpu)
        for gpu in vitals.gpus
        if gpu.power_limit_watts and gpu.power_default_watts and gpu.power_limit_watts < _BELOW * gpu.power_default_watts
    ]
    if not lowered:
        return None
    ratio, gpu = min(lowered, key=lambda pair: pair[0])
    lost = _SLOWER * (1.0 - ratio)
    drawn = "" if gpu.power_watts is None else f"{gpu.power_watts:.0f} W drawn under load"
    return Finding(
        code=CODE,
        title=f"{gpu.name} is limited to {gpu.power_limit_watts:.0f} of {gpu.power_default_watts:.0f} W",
        seconds_per_step=lost * vitals.step_s,
        share_fraction=lost,
        gain=Gain(low=1.0, high=1.0 / (1.0 - lost)),
        confidence="low",
        evidence=tuple(filter(None, (f"the limit is {ratio:.0%} of the default", drawn))),
        remedy="keep it if it is intended, because it saves more energy than it costs time",
        verify="`gpuwise predict --power-limit` shows what it costs your model",
    )
