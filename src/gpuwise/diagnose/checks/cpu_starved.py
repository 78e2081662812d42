"""The host has too few free CPU cores.

## What it detects
This check looks for a main thread that had to wait for a CPU core. It reports the thread if, according to Linux, it was
ready to run but had to wait for at least 5% of the time, while the cores were at least 90% busy. It also reports runs
with more loader workers than cores. If other programs cause most of the load, the finding is listed after the causes in
your program.

## Why it costs time
Workers, the training process and other programs take turns on the cores. If a kernel is launched late, the GPU is idle
in the meantime.

## What to do
Use no more workers than cores, call `torch.set_num_threads(1)` in workers, stop other programs, or use a machine with
more cores per GPU.

## Confidence
Confidence is medium, because the delay is measured but its effect is not. The upper end of the gain assumes a step
without the delay. The lower end assumes a third of that gain, because other limits remain.
"""

from __future__ import annotations

from gpuwise.core.text import counted
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
    whose = "" if own is None else f" ({own / max(busy, 1e-9):.0%} of that by this run)"
    workers = f"{vitals.workers} loader workers share {counted(vitals.core_count, 'core')}" if crowded else ""
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
                (
                    f"{busy:.0%} of the cores are in use{whose}, and threads wait for a free core {delayed:.0%} of the time",
                    workers,
                ),
            )
        ),
        remedy="use no more workers than cores, stop other programs, or use a machine with more cores per GPU",
        verify="threads should wait for a free core less than 5% of the time",
        circumstance=foreign,
    )


def _title(*, crowded: bool, foreign: bool) -> str:
    if crowded:
        return "there are more loader workers than CPU cores"
    return "other programs occupy the CPU cores" if foreign else "training waits for a free CPU core"
