"""GPUs communicate through a slow backend.

## What it detects
This check looks for gloo as the communication backend while kernels run on GPUs, and for profiler ranges and ops of
`DataParallel`.

## Why it costs time
gloo moves tensors through the host. `DataParallel` copies the model to every GPU in each step and runs all GPUs from
one Python thread.

## What to do
Use `DistributedDataParallel` with `backend="nccl"` and one process per GPU.

## Confidence
It is certain that the slow backend is in use. The gain depends on the model and the link. Its range starts at 1.0 (no
gain), and its upper end assumes that all exposed communication is removed.
"""

from __future__ import annotations

from gpuwise.diagnose.types import Finding, Gain
from gpuwise.diagnose.view import View

__all__ = ["CODE", "check"]

CODE = "wrong_backend"


def check(view: View) -> Finding | None:
    """Find names that only gloo or DataParallel leave behind."""
    scene = view.scene
    if scene.on_cpu:
        return None
    gloo = scene.trace.backend.lower() == "gloo" or scene.trace.named("gloo:").any()
    parallel = scene.trace.named("dataparallel.forward", "reduceaddcoalesced", "nn.module: dataparallel").any()
    if not gloo and not (parallel and not scene.trace.named("distributeddataparallel.forward").any()):
        return None
    copies = view.parts.parts_s["copy"] + view.parts.parts_s["communication"]
    return Finding(
        code=CODE,
        title="gloo moves tensors between GPUs through the host" if gloo else "DataParallel runs all GPUs from one thread",
        seconds_per_step=copies,
        share_fraction=copies / view.step_s,
        gain=Gain(low=1.0, high=view.gain(copies).high),
        confidence="high",
        evidence=("the backend is gloo" if gloo else "the trace contains DataParallel calls and ops",),
        remedy='use DistributedDataParallel with backend="nccl" and one process per GPU',
        verify="NCCL kernels should appear instead of gloo or DataParallel calls",
    )
