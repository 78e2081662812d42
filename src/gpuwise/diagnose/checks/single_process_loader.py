"""The loader has no workers.

## What it detects
This check looks for `_SingleProcessDataLoaderIter` in the names of the loader's profiler ranges. It reports the loader
only if data loading also slows the step down. In a watched run, it looks for a `num_workers` of 0, or a Keras
`PyDataset` with one thread.

## Why it costs time
With `num_workers=0`, the training process itself reads and augments each batch, one sample after another, while the GPU
is idle.

## What to do
Use `DataLoader(..., num_workers=4)` or more, up to the number of cores. On Windows and macOS, guard the script with
`if __name__ == "__main__":`.

## Confidence
It is certain that there are no workers. The gain is computed as in `input_starved`. It is limited by the number of
cores, which a trace does not record.
"""

from __future__ import annotations

from gpuwise.core.text import counted
from gpuwise.diagnose.checks import input_starved
from gpuwise.diagnose.replay import Change
from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View
from gpuwise.diagnose.vitals import Vitals

__all__ = ["CODE", "check", "check_live"]

CODE = "single_process_loader"
_KEPT = 0.7
_WORKERS = 4


def check(view: View) -> Finding | None:
    """Report the loader only together with `input_starved`."""
    lost_s = view.parts.parts_s["input_wait"]
    if lost_s < input_starved.THRESHOLD * view.step_s or not view.scene.trace.named("_singleprocessdataloaderiter").any():
        return None
    return Finding(
        code=CODE,
        title="the data loader runs in the training process (num_workers=0)",
        seconds_per_step=lost_s,
        share_fraction=lost_s / view.step_s,
        gain=view.gain(lost_s, likely=Change(loading=_KEPT), best=Change(loading=0.1)),
        confidence="high",
        evidence=("the loader is recorded as _SingleProcessDataLoaderIter",),
        remedy=f"use DataLoader(..., num_workers={_WORKERS}, persistent_workers=True), with up to one worker per core",
        verify="the loader should be recorded as _MultiProcessingDataLoaderIter and take less than 5% of the step",
    )


def check_live(vitals: Vitals) -> Finding | None:
    """Report the loader only together with `input_starved`, and only if it is known to have no workers."""
    share = vitals.wait_s / vitals.step_s if vitals.step_s > 0 else 0.0
    if share < input_starved.THRESHOLD or vitals.workers != 0:
        return None
    workers = min(_WORKERS, vitals.core_count or _WORKERS)
    more = ", with up to one worker per core" if workers == _WORKERS else ""
    cores = f"; this machine has {counted(vitals.core_count, 'core')}" if vitals.core_count else ""
    return Finding(
        code=CODE,
        title="the data loader runs in the training process (no workers)",
        seconds_per_step=vitals.wait_s,
        share_fraction=share,
        gain=input_starved.live_gain(vitals, _KEPT),
        confidence="high",
        evidence=(f"the loader has no workers{cores}",),
        remedy=f"use DataLoader(..., num_workers={workers}, persistent_workers=True){more}; "
        f"for a Keras PyDataset, use workers={workers}, use_multiprocessing=True",
        verify="the wait should fall below 5% of the step",
    )
