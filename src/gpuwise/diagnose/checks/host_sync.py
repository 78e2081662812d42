"""The host waits for the GPU, and then the GPU for the host.

## What it sees
Synchronising calls (`.item()`, `.cpu()`, `cudaStreamSynchronize`, `cudaDeviceSynchronize`) that are followed by a gap on the
device, from 2 % of the step on.

## Why it costs time
While it waits the host launches nothing. When it returns the queue is empty, and the device idles until the next launch
arrives.

## What to do
Keep losses on the device and read them every hundred steps; no `.item()`, `.cpu()`, `print(tensor)`, `if tensor:` in the loop;
`non_blocking=True` for copies.

## How sure
High for the gaps. The upper end is the step without them, the lower end a replay in which the host does not wait but has
everything else to do.
"""

from __future__ import annotations

import numpy as np

from gpuwise.diagnose.replay import Change
from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View

__all__ = ["CODE", "check"]

CODE = "host_sync"
_THRESHOLD = 0.02


def check(view: View) -> Finding | None:
    """Gaps after synchronising calls."""
    lost_s = view.parts.parts_s["synchronisation"]
    scene = view.scene
    begin, end = scene.steps.steady_window
    calls = scene.sync.where((scene.sync.start_ns >= begin) & (scene.sync.start_ns < end))
    if lost_s < _THRESHOLD * view.step_s or not len(calls):
        return None
    steps = max(scene.steps.steady_count, 1)
    held_s = float(calls.duration_ns.sum()) * 1e-9 / steps
    names = [scene.trace.names[number] for number in np.unique(calls.name)[:3]]
    return Finding(
        code=CODE,
        title="the host waits for the GPU inside the step",
        seconds_per_step=lost_s,
        share_fraction=lost_s / view.step_s,
        gain=view.gain(lost_s, likely=Change(waiting=False)),
        confidence="high" if lost_s >= 0.05 * view.step_s else "medium",
        evidence=(
            f"{len(calls) / steps:,.1f} synchronising calls {view.per} ({', '.join(names)}), {held_s * 1e3:,.2f} ms in them",
            f"gaps of {lost_s * 1e3:,.2f} ms a step follow them",
        ),
        remedy="keep values on the device: .item() or .cpu() every hundred steps, not every step",
        verify="the calls should be gone from the steady steps",
    )
