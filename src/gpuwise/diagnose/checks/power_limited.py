"""The power limit is below the default.

## What it detects
This check looks for a power limit enforced by the driver that is at least 2% below the card's default. This finding is
for information only, because the limit may be intentional.

## Why it costs time
Under full load, the GPU lowers its clock until its power stays within the limit.

## What to do
Reset the limit with `nvidia-smi -pl` if you have permission. The limit is often worth keeping, because it reduces power
more than speed.

## Confidence
Confidence is high, because the driver reports the limit. If the limit is raised by a given percentage, speed is assumed
to rise by at most a fifth of that percentage. A V100 limited to 80% of its power was only about 4% slower (Zeus, NSDI
2023). The range starts at 1.0 (no gain), because a GPU that is often idle does not reach its limit.
"""

from __future__ import annotations

from gpuwise.diagnose.types import Finding, Gain
from gpuwise.diagnose.vitals import Vitals

__all__ = ["CODE", "check_live"]

CODE = "power_limited"
_BELOW = 0.98
_SLOWER = 0.2  # share of the removed power that is lost as speed


def check_live(vitals: Vitals) -> Finding | None:
    """Find the GPU whose limit is lowest relative to its default."""
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
        title=f"the {gpu.name} is limited to {gpu.power_limit_watts:.0f} of {gpu.power_default_watts:.0f} W",
        seconds_per_step=lost * vitals.step_s,
        share_fraction=lost,
        gain=Gain(low=1.0, high=1.0 / (1.0 - lost)),
        confidence="low",
        evidence=tuple(filter(None, (f"the limit is {ratio:.0%} of the default", drawn))),
        remedy="keep the limit if it is intended, because it reduces power more than speed",
        verify="`gpuwise predict --power-limit` shows how much it slows your model down",
    )
