"""The GPU waits for input.

## What it detects
This check looks for time in which nothing runs on the device while the main thread is inside the loader
(`DataLoader.__next__` in PyTorch, `IteratorGetNext` in tf.data). It reports this time if it is at least 5% of the step.
The check considers all steady steps together, because loaders stall in bursts that a median step does not show.

## Why it costs time
The step cannot begin before its batch has arrived. Without workers, the main process reads and augments the batch
between steps.

## What to do
Set `num_workers` to about the number of cores, `persistent_workers=True`, `prefetch_factor=4` and `pin_memory=True`. If
that is not enough, make each sample cheaper. For example, use smaller files, decode them once, or augment on the GPU.

## Confidence
Confidence is high, because both sides are measured. The upper end of the gain comes from a replay without any loading.
The lower end assumes that three fifths of the loading time remains, because workers need cores and a slow disk stays
slow. In a watched run, the wait for each batch is timed without a profiler. In that case, the upper end is based
on the fastest step without its wait, or on the step's CPU time divided by the number of cores if that is longer.
"""

from __future__ import annotations

from gpuwise.diagnose.host import causes
from gpuwise.diagnose.replay import Change
from gpuwise.diagnose.types import Finding, Gain
from gpuwise.diagnose.view import View
from gpuwise.diagnose.vitals import Vitals

__all__ = ["CODE", "check", "check_live", "live_gain"]

CODE = "input_starved"
THRESHOLD = 0.05
_SURE = 0.2
_KEPT = 0.6
_COMPUTES = 0.5
_REMEDY = "use more loader workers (num_workers near the core count, persistent_workers, prefetch_factor=4, pin_memory)"


def check(view: View) -> Finding | None:
    """Find idle time during loading, as a share of the steady steps."""
    idle_s = view.parts.parts_s["input_wait"]
    share = idle_s / view.step_s
    if share < THRESHOLD:
        return None
    loading = view.facts.loader_fraction
    waiting = view.parts.idle["input_wait"]
    few, each = view.seldom(waiting)
    found = causes(view.scene, waiting)
    return Finding(
        code=CODE,
        title=("the GPU waits" if not view.scene.on_cpu else "the step waits") + f" for the input pipeline{few}",
        seconds_per_step=idle_s,
        share_fraction=share,
        gain=view.gain(idle_s, likely=Change(loading=_KEPT), best=Change(loading=0.0)),
        confidence="high" if share >= _SURE else "medium",
        evidence=(
            f"the main thread spends {loading:.1%} of the time in the loader",
            f"the {'step' if view.scene.on_cpu else 'GPU'} waits for it {share:.1%} of the time",
            *each,
        ),
        remedy=_REMEDY,
        verify="in a new profile, the loader should take less than 5% of the step",
        where=found[0].where if found else "",
    )


def check_live(vitals: Vitals) -> Finding | None:
    """Find timed waits for batches, as a share of the steady steps."""
    share = vitals.wait_s / vitals.step_s if vitals.step_s > 0 else 0.0
    if share < THRESHOLD:
        return None
    computing = vitals.wait_cpu_s / vitals.wait_s
    how = "prepares the batch itself" if computing > _COMPUTES else "is idle, so another process prepares the batch"
    return Finding(
        code=CODE,
        title="the GPU waits for the input pipeline" if not vitals.on_cpu else "the step waits for the input pipeline",
        seconds_per_step=vitals.wait_s,
        share_fraction=share,
        gain=live_gain(vitals, _KEPT),
        confidence="high" if share >= _SURE else "medium",
        evidence=(
            f"the training loop waits for its next batch {share:.1%} of the time",
            f"meanwhile the process {how} ({computing:.0%} of a core)",
        ),
        remedy=_REMEDY,
        verify="the wait should fall below 5% of the step",
    )


def live_gain(vitals: Vitals, kept: float) -> Gain:
    """The range if between `kept` and none of the waiting remains. The upper end is a step at its best, which is shorter than
    the mean step without its wait, because after most waits caches are cold, clocks are low and other programs interfere."""
    step = vitals.step_s
    least = max(vitals.work_low_s, vitals.cpu_s / max(vitals.core_count, 1), 0.05 * step)
    low = step / max(step - (1.0 - kept) * vitals.wait_s, 0.05 * step)
    high = max(step / least, 1.0)
    work = step - vitals.wait_s
    best = f"without the wait, a step would take {work * 1e3:,.1f} ms, or {least * 1e3:,.1f} ms at best"
    return Gain(low=min(low, high), high=max(low, high), beyond=best)
