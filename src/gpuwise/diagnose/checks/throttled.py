"""The GPU is throttled.

## What it detects
This check looks for samples under load in which the driver names heat or a power brake as the reason for a lower clock.
It reports the GPU if these make up at least 5% of all samples under load. If the driver gives no reasons, the check looks
for samples under load in which the clock is below 90% of the boost clock and the card draws less than 95% of its power
limit. In that case, the power limit is not the cause.

## Why it costs time
All compute work runs at the lower clock. This check ignores the power cap, because every card reaches it under full
load.

## What to do
Clean filters and fans, leave more space between cards, set a fan curve, or lower the room temperature. A power brake is
triggered by the power supply or the board, so check cables and connectors.

## Confidence
Confidence is high if the driver names the reason. It is low if only the clock is known, because somebody may have
lowered it on purpose. The upper end of the gain is the ratio of the boost clock to the observed clock. The lower end
assumes a third of that gain, because memory-bound work does not scale with the clock.
"""

from __future__ import annotations

from gpuwise.diagnose.types import Finding, Gain
from gpuwise.diagnose.vitals import GpuVitals, Vitals

__all__ = ["CODE", "check_live"]

CODE = "throttled"
_THRESHOLD = 0.05
_BAD = ("thermal", "thermal (software)", "thermal (hardware)", "power brake", "hardware slowdown")
_FEW = 3
_FOLLOWS = 1 / 3
_SLOW = 0.9
_CAPPED = 0.95


def check_live(vitals: Vitals) -> Finding | None:
    """Find the GPU that is slowed down most."""
    held = [(share, gpu) for gpu in vitals.gpus if gpu.load_count >= _FEW and (share := _held(gpu)) >= _THRESHOLD]
    if not held:
        return None
    share, gpu = max(held, key=lambda pair: pair[0])
    ratio = max((gpu.boost_hz or 0.0) / gpu.clock_hz, 1.0) if gpu.clock_hz else 1.0
    lost = 1.0 - 1.0 / ratio
    names = [f"{name} {of:.0%}" for name, of in (gpu.reasons or {}).items() if name in _BAD and of > 0]
    reasons = f"reasons for throttling under load: {', '.join(names)}" if names else "the driver reports no reason"
    drawn = (
        f"it draws {gpu.power_watts or 0:.0f} of {gpu.power_limit_watts or 0:.0f} W, so the power cap is not the reason"
        if not names
        else ""
    )
    heat = f", up to {gpu.temperature_c:.0f} °C" if gpu.temperature_c is not None else ""
    clock = (
        f"the clock is {(gpu.clock_hz or 0) / 1e6:,.0f} of {(gpu.boost_hz or 0) / 1e6:,.0f} MHz under load"
        if gpu.clock_hz
        else ""
    )
    return Finding(
        code=CODE,
        title=f"the {gpu.name} is throttled",
        seconds_per_step=lost * vitals.step_s,
        share_fraction=lost,
        gain=Gain(low=1.0 + _FOLLOWS * (ratio - 1.0), high=ratio),
        confidence="low" if not names else "high" if share >= 0.2 else "medium",
        evidence=tuple(filter(None, (f"{reasons}{heat}", clock, drawn))),
        remedy="improve the cooling (fans, filters, space between cards); for a power brake, check the cables "
        "and the power supply",
        verify="the throttling should be gone, and the clock should be near the boost clock",
    )


def _held(gpu: GpuVitals) -> float:
    """The share of time under load in which the GPU was slowed down."""
    if gpu.reasons is None:
        return 1.0 if _slow_without_cap(gpu) else 0.0
    return max(((gpu.reasons or {}).get(name, 0.0) for name in _BAD), default=0.0)


def _slow_without_cap(gpu: GpuVitals) -> bool:
    if not gpu.clock_hz or not gpu.boost_hz or not gpu.power_watts or not gpu.power_limit_watts:
        return False
    return gpu.clock_hz < _SLOW * gpu.boost_hz and gpu.power_watts < _CAPPED * gpu.power_limit_watts
