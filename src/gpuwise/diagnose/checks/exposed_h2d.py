"""Copies between host and device are not hidden behind compute.

## What it detects
This check looks for copies to the device, to the host or from GPU to GPU that take place while no kernel runs, for at
least 3% of the step.

## Why it costs time
The link to the GPU is ten to fifty times slower than GPU memory. The step waits for a copy that could have been made
during the previous step.

## What to do
Use pinned memory and `tensor.to(device, non_blocking=True)`, and prefetch the next batch on a separate stream. Copy
8-bit images and convert them to floats on the GPU. If weights or activations are copied in each step (offloading) but
would fit on the device, keep them there. Copy results back to the host while the next kernels run.

## Confidence
Confidence in the lost time is high. Whether all of it can be hidden depends on the other work in the step.
"""

from __future__ import annotations

from gpuwise.core.text import counted
from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View
from gpuwise.trace.types import Kind

__all__ = ["CODE", "check"]

CODE = "exposed_h2d"
_THRESHOLD = 0.03
_SURE = 0.1
_MOST = 0.5
_PART = 0.25  # of the copies; a direction with a larger share counts
_ACROSS = "split the model so that less data is copied from GPU to GPU, use GPUs with a faster link, or copy while kernels run"
_BACK = "keep results on the GPU and copy only what is needed, or copy into pinned memory on a separate stream while kernels run"
_COPY_LESS = "keep weights on the GPU or send smaller types, because the memory is already pinned and the link is saturated"


def _remedy(pinned: bool, share: float) -> str:
    if pinned and share > _MOST:
        return _COPY_LESS
    first = ".to(device, non_blocking=True)" if pinned else "pin_memory=True with .to(device, non_blocking=True)"
    return f"use {first}, and prefetch on a separate stream"


def check(view: View) -> Finding | None:
    """Find copies during which no kernel runs."""
    scene = view.scene
    to_device, to_host = scene.named("htod", "host -> device", "h2d"), scene.named("dtoh", "device -> host", "d2h")
    to_peer = scene.named("ptop", "p2p", "peer")
    copies = (scene.work.kind == Kind.MEMCPY) & (to_device | to_host | to_peer)
    begin, end = scene.steps.steady_window
    alone = scene.spans(copies).within(begin, end).without(scene.spans(scene.kernels))
    lost_s = alone.total_ns * 1e-9 / max(scene.steps.steady_count, 1)
    share = lost_s / view.step_s
    if share < _THRESHOLD:
        return None
    pinned = view.work_s(copies & scene.named("pinned ->", "-> pinned")) > 0.5 * view.work_s(copies)
    back, across = (view.work_s(copies & rows) / max(view.work_s(copies), 1e-12) for rows in (to_host, to_peer))
    which = "to the GPU" if back < _PART else "to the host" if back > 1.0 - _PART else "between host and GPU"
    which = "between GPUs" if across > 1.0 - _PART else which
    size = float(scene.work.size_bytes[copies & scene.steady].clip(min=0).sum()) / max(scene.steps.steady_count, 1)
    return Finding(
        code=CODE,
        title=f"copies {which} are not hidden behind compute",
        seconds_per_step=lost_s,
        share_fraction=share,
        gain=view.gain(lost_s, likely=view.shrink(copies, 0.5)),
        confidence="high" if share >= _SURE else "medium",
        evidence=(
            f"{counted(view.count(copies), 'copy')} {view.per} ({size / 1e6:,.1f} MB in total{', pinned' if pinned else ''}); "
            f"copies run alone for {share:.1%} of the time",
        ),
        remedy=_ACROSS if across > _PART else _remedy(pinned, share) if back < _PART else _BACK,
        verify="in the profile, copies should overlap with the kernels of the previous step",
    )
