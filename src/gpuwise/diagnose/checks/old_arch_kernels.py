"""Kernels were built for an older architecture.

## What it detects
This check looks for matrix kernels whose names refer to an older generation than the device (`cutlass_75…` or `volta_…`
on an Ampere card, `sm80_xmma…` on Hopper) and that take at least 20% of matrix time.

## Why it costs time
Such kernels lack newer features such as asynchronous copies, larger tiles and wgmma instructions. On Hopper, an Ampere
kernel reaches about half the speed of a native one.

## What to do
Use a newer framework that was built with a newer CUDA toolkit, and rebuild libraries such as flash-attn for the card.

## Confidence
Confidence is medium. Libraries deliberately keep older kernels that are just as fast, especially for small sizes and
fp32. The range of the gain therefore starts at 1.0 (no gain). The upper end assumes that native kernels are 1.5 times
as fast.
"""

from __future__ import annotations

import re

import numpy as np

from gpuwise.diagnose.types import Finding, Gain
from gpuwise.diagnose.view import View

__all__ = ["CODE", "built_for", "check"]

CODE = "old_arch_kernels"
_THRESHOLD = 0.2
_FASTER = 1.5
_NUMBER = re.compile(r"(?:cutlass_|sm_?)(\d{2,3})(?!\d)")
_WORDS = {"maxwell": 50, "pascal": 60, "volta": 70, "turing": 75, "ampere": 80, "hopper": 90}


def built_for(name: str) -> int | None:
    """Ten times the compute capability that a kernel's name carries.

    >>> built_for("cutlass_80_tensorop_s1688gemm_256x64"), built_for("volta_sgemm_64x64_nt"), built_for("attn_fwd")
    (80, 70, None)
    """
    found = _NUMBER.search(name)
    if found:
        return int(found[1])
    return next((number for word, number in _WORDS.items() if re.search(rf"(^|_){word}_", name)), None)


def check(view: View) -> Finding | None:
    """Find matrix kernels of an older major generation. Kernels in fp32 do not count, because nothing newer exists for them."""
    capability = view.scene.device.capability
    if view.scene.device.vendor != "NVIDIA" or capability is None:
        return None
    scene = view.scene
    native = capability[0] * 10
    old = np.array(
        [(number := built_for(name)) is not None and number // 10 * 10 < native for name in scene.trace.names], dtype=bool
    )
    matrix = scene.is_unit("matrix")
    chosen = matrix & old[scene.work.name]
    lost_s, all_s = view.work_s(chosen), view.work_s(matrix)
    if all_s <= 0 or lost_s < _THRESHOLD * all_s or lost_s < 0.02 * view.step_s:
        return None
    saved = view.exposed_s(chosen) * (1.0 - 1.0 / _FASTER)
    return Finding(
        code=CODE,
        title=f"matrix kernels are built for an older architecture than sm_{capability[0]}{capability[1]}",
        seconds_per_step=view.held_s(chosen),
        share_fraction=view.held_s(chosen) / view.step_s,
        gain=Gain(low=1.0, high=view.gain(saved).high),
        confidence="medium",
        evidence=(f"{lost_s / all_s:.0%} of the time on matrix units is spent in kernels built for an older generation",),
        remedy="install a framework built with a newer CUDA toolkit, and rebuild extensions for this GPU",
        verify=f"kernel names should contain sm{native} or a newer number",
    )
