"""Several GPUs talk through the wrong software.

## What it sees
gloo as the backend while kernels run on GPUs, or the marks and ops of `DataParallel`.

## Why it costs time
gloo moves tensors through the host. `DataParallel` copies the model to every GPU each step and runs them from one Python
thread.

## What to do
`DistributedDataParallel` with `backend="nccl"`, one process a GPU.

## How sure
High that it is in use. The gain depends on model and link; the range begins at nothing, and its upper end takes all exposed
communication away.
"""

from __future__ import annotations

from gpuwise.diagnose.types import Finding, Gain
from gpuwise.diagnose.view import View

__all__ = ["CODE", "check"]

CODE = "wrong_backend"


def check(view: View) -> Finding | None:
    """Names that only gloo or DataParallel leave behind."""
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
        evidence=("the backend is gloo" if gloo else "the trace contains calls and ops of DataParallel",),
        remedy='use DistributedDataParallel with backend="nccl" and one process per GPU',
        verify="NCCL kernels should appear instead of gloo or DataParallel calls",
    )
