"""Element-wise kernels take up a large part of the step.

## What it detects
This check looks for element-wise, normalisation and optimizer kernels, and for copies within the device, that take
longer than 10 µs and are limited by memory bandwidth. It reports them if together they take at least 30% of the step.
It leaves out kernels with less than one block for every four multiprocessors, because such kernels cannot use the whole
bandwidth. On a CPU, it looks only for chains of at least five element-wise ops, because single ops, norms and pooling
cannot be fused into a convolution or matrix product there.

## Why it costs time
Each of these kernels reads and writes whole tensors but computes very little. More compute power does not help, but
fewer memory accesses do.

## What to do
`torch.compile` fuses chains of these kernels into one. Use `channels_last` for convolutional networks, optimizers with
`fused=True`, fused norms and flash attention. 16-bit activations halve the number of bytes.

## Confidence
Confidence is medium. Traces do not record bytes, so gpuwise infers from the class and length of a kernel that it is
memory-bound. The upper end of the gain assumes that fusion leaves 30% of this time, and the lower end assumes that it
leaves 85% (`torch.compile` makes most eager models 1.1 to 1.6 times as fast).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View
from gpuwise.trace.types import Kind, Mask

__all__ = ["CODE", "check"]

CODE = "bandwidth_bound"
_THRESHOLD = 0.3
_LONG_NS = 10_000
_BEST, _LIKELY = 0.3, 0.85
_CHAIN = 5
_FEWEST_BLOCKS = 0.25  # per multiprocessor; assumed
_FEWER_COPIES = (
    "avoid clone(), contiguous() and cat() on large tensors, and write results in place; torch.compile removes many copies"
)


def check(view: View) -> Finding | None:
    """Find time in long kernels that only move data."""
    scene = view.scene
    long = scene.work.duration_ns > _LONG_NS
    moving = (scene.work.kind == Kind.MEMSET) | ((scene.work.kind == Kind.MEMCPY) & scene.named("dtod", "d2d"))
    if scene.on_cpu:
        chosen = _in_chains(scene.is_class("elementwise") & ~scene.named("copy_"), scene.work.thread) & long
    else:
        narrow = scene.kernels & (view.blocks_per_sm < _FEWEST_BLOCKS)
        chosen = (scene.is_class("elementwise", "norm", "optimizer") | moving) & long & ~narrow
    lost_s = view.exposed_s(chosen)
    if lost_s < _THRESHOLD * view.step_s:
        return None
    fused = scene.named("triton_", "fusion")
    already = view.work_s(chosen & fused) / max(view.work_s(chosen), 1e-12)
    copies = view.work_s(chosen & moving) > 0.5 * view.work_s(chosen)
    return Finding(
        code=CODE,
        title=f"{'copies within the GPU' if copies else 'element-wise kernels'} take up a large part of the time",
        seconds_per_step=lost_s,
        share_fraction=lost_s / view.step_s,
        gain=view.gain(lost_s * (1.0 - _BEST) * (1.0 - already), likely=view.shrink(chosen & ~fused, _LIKELY)),
        confidence="medium",
        evidence=(
            f"{lost_s / view.step_s:.1%} of the step is spent in element-wise, norm and optimizer kernels "
            f"{'and copies within the GPU ' if copies else ''}that take longer than 10 µs",
            f"kernels that are already compiled account for {already:.0%} of that time",
        ),
        remedy=_FEWER_COPIES if copies else "use torch.compile, fused norms and attention, or 16-bit activations",
        verify=f"there should be far fewer copies {view.per}"
        if copies
        else f"there should be far fewer element-wise kernels {view.per}, with names that start with triton_",
    )


def _in_chains(alike: Mask, thread: npt.NDArray[np.int32]) -> Mask:
    """Return the ops that follow one another on their thread, at least `_CHAIN` in a row."""
    found = np.zeros(len(alike), dtype=bool)
    for one in np.unique(thread):
        rows = np.flatnonzero(thread == one)
        ends = np.flatnonzero(np.diff(np.concatenate([[False], alike[rows], [False]]).astype(np.int8)))
        for first, after in zip(ends[::2], ends[1::2], strict=True):
            if after - first >= _CHAIN:
                found[rows[first:after]] = True
    return found
