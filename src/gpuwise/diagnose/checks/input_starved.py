"""The GPU waits for input.

## What it sees
Time in which nothing runs on the device while the main thread is inside the loader: `DataLoader.__next__` of PyTorch,
`IteratorGetNext` of tf.data. Told from 5 % of the step on, and looked at over all steady steps together, because loaders stall
in bursts that a median step does not show.

## Why it costs time
The step cannot begin before its batch is there. With no workers, reading and augmenting happen in the main process, between
the steps.

## What to do
`num_workers` of about the number of cores, `persistent_workers=True`, `prefetch_factor=4`, `pin_memory=True`. If it stays,
make a sample cheaper: smaller files, decoded once, augmentation on the GPU.

## How sure
High: both sides are measured. The upper end of the gain is a replay without any loading, the lower end keeps three fifths of
it, because workers need cores and a slow disk stays slow (assumed).
"""

from __future__ import annotations

from gpuwise.diagnose.replay import Change
from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View

__all__ = ["CODE", "check"]

CODE = "input_starved"
THRESHOLD = 0.05
_SURE = 0.2
_KEPT = 0.6


def check(view: View) -> Finding | None:
    """Idle while loading, as a share of the steady steps."""
    idle_s = view.parts.parts_s["input_wait"]
    share = idle_s / view.step_s
    if share < THRESHOLD:
        return None
    loading = view.facts.loader_fraction
    return Finding(
        code=CODE,
        title="the GPU waits for the input pipeline" if not view.scene.on_cpu else "the step waits for the input pipeline",
        seconds_per_step=idle_s,
        share_fraction=share,
        gain=view.gain(idle_s, likely=Change(loading=_KEPT), best=Change(loading=0.0)),
        confidence="high" if share >= _SURE else "medium",
        evidence=(
            f"the main thread spends {loading:.1%} of the time in the loader",
            f"in {share:.1%} of the time nothing runs on the device meanwhile",
        ),
        remedy="more loader workers (num_workers near the core count, persistent_workers, prefetch_factor=4, pin_memory)",
        verify="profile again: the loader's share of the step should fall below 5 %",
    )
