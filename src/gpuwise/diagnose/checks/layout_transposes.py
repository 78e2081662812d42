"""Tensors are converted between NCHW and NHWC.

## What it detects
This check looks for kernels that only change the layout (`nchwToNhwc`, `batched_transpose`) and take at least 3% of the
step.

## Why it costs time
Matrix units need NHWC. In an NCHW model, tensors are converted back and forth around each convolution, and each
conversion reads and writes the whole tensor.

## What to do
Call `.to(memory_format=torch.channels_last)` on both the model and its input. Replace ops that fall back to NCHW.

## Confidence
Confidence in the measured time is high. The upper end of the gain assumes that all of it is saved. The lower end assumes that
half of it is saved, because some ops do not support the layout.
"""

from __future__ import annotations

import numpy as np

from gpuwise.diagnose.classes import is_layout_change
from gpuwise.diagnose.cpu_work import named_ops
from gpuwise.diagnose.shapes import dims_of
from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View
from gpuwise.trace.sized import DUPLICATES
from gpuwise.trace.types import Mask

__all__ = ["CODE", "check"]

CODE = "layout_transposes"
_THRESHOLD = 0.03


def check(view: View) -> Finding | None:
    """Find time in layout conversions."""
    scene = view.scene
    fits = np.array([is_layout_change(name) for name in scene.trace.names], dtype=bool)
    chosen = _layout_copies(view) if scene.on_cpu else fits[scene.work.name] & scene.kernels
    lost_s = view.exposed_s(chosen)
    share_of_kernels = view.work_s(chosen) / view.kernel_s if view.kernel_s else 0.0
    if lost_s < _THRESHOLD * view.step_s and not (share_of_kernels >= 0.1 and lost_s >= 0.01 * view.step_s):
        return None
    return Finding(
        code=CODE,
        title="tensors are converted between NCHW and NHWC",
        seconds_per_step=lost_s,
        share_fraction=lost_s / view.step_s,
        gain=view.gain(lost_s, likely=view.shrink(chosen, 0.5)),
        confidence="high",
        evidence=(f"{view.count(chosen):,.0f} layout conversions {view.per} take {share_of_kernels:.1%} of kernel time",),
        remedy="use channels_last for both the model and its input",
        verify="the conversion kernels should no longer appear",
    )


def _layout_copies(view: View) -> Mask:
    """On a CPU, the copies that `contiguous()` makes of tensors with at least four dimensions."""
    scene = view.scene
    calls = named_ops(scene.trace, *DUPLICATES)
    images = np.array([_is_image(shape) for shape in scene.trace.shapes] or [False], dtype=bool)
    calls = calls.where((calls.shape >= 0) & images[np.maximum(calls.shape, 0)])
    if not len(calls):
        return np.zeros(len(scene.work), dtype=bool)
    place = np.searchsorted(calls.start_ns, scene.work.start_ns, side="right") - 1
    reach = np.maximum.accumulate(calls.end_ns)
    inside = (place >= 0) & (scene.work.start_ns < reach[np.maximum(place, 0)])
    return np.asarray(inside & scene.named("aten::copy_"), dtype=bool)


def _is_image(shape: bytes) -> bool:
    dims, _ = dims_of(shape)
    return bool(dims) and isinstance(dims[0], list) and len(dims[0]) >= 4
