"""The GPU waits for the host to launch kernels.

## What it detects
This check looks for idle time in which the queue was empty because the host had not yet launched the next kernel, and
for idle time before or inside CUDA graphs. It reports this time if it is at least 15% of the step and kernels last only
a few microseconds.

## Why it costs time
Eager PyTorch needs 10 to 60 µs of host time for each op. Kernels shorter than that finish before the next one is
launched. A faster GPU does not help, because it would only wait longer.

## What to do
Use `torch.compile(model, mode="reduce-overhead")` or CUDA graphs, a larger batch, `foreach` or `fused` optimizers, and
fewer small ops. A faster CPU core shortens the wait in proportion to its speed.

## Confidence
Confidence is high if launches and kernels are matched. It is low if the idle time surrounds CUDA graphs, because
profilers do not always record what runs inside them. The lower end of the gain assumes that a quarter of the host time
is saved, and the upper end assumes that all of it is saved. Profiling itself also slows the host down.
"""

from __future__ import annotations

from gpuwise.core.text import counted
from gpuwise.diagnose.checks import host_sync, unfused_optimizer
from gpuwise.diagnose.replay import Change
from gpuwise.diagnose.types import Finding, Gain
from gpuwise.diagnose.view import View

__all__ = ["CODE", "check", "waiting_s"]

CODE = "launch_bound"
_THRESHOLD = 0.15
_SHORT_S = 10e-6
_LIKELY = 0.75
_SMALL_NS = 50_000
_FOR_GRAPHS = "record once without CUDA graphs to see what runs inside them, then use fewer but larger graphs or a larger batch"


def check(view: View) -> Finding | None:
    """Find idle time with an empty queue."""
    waiting, graphs = waiting_s(view), view.parts.parts_s["graph_wait"]
    lost_s = waiting + graphs
    median = view.median_kernel_s()
    if lost_s < _THRESHOLD * view.step_s:
        return None
    evidence = [
        f"{counted(view.count(view.scene.kernels), 'kernel')} {view.per} with a median time of {median * 1e6:.1f} µs",
        f"the queue is empty {waiting / view.step_s:.1%} of the time, because the host has not launched the next kernel",
    ]
    if view.scene.on_cpu:
        return _on_cpu(lost_s, view, median)
    gain = view.gain(lost_s, likely=Change(host=_LIKELY), best=Change(host=0.0))
    if graphs > waiting:
        evidence.append(
            f"the GPU is idle before or inside CUDA graphs {graphs / view.step_s:.1%} of the time, "
            "because launches are slow or kernels were not recorded"
        )
        gain = Gain(low=1.0, high=view.step_s / max(view.step_s - lost_s, 0.05 * view.step_s))
    around_graphs = graphs > waiting
    return Finding(
        code=CODE,
        title="the GPU is idle around CUDA graphs" if around_graphs else "the GPU waits for the host to launch kernels",
        seconds_per_step=lost_s,
        share_fraction=lost_s / view.step_s,
        gain=gain,
        confidence="low" if around_graphs else "high" if median < _SHORT_S else "medium",
        evidence=tuple(evidence),
        remedy=_FOR_GRAPHS
        if around_graphs
        else 'use torch.compile(mode="reduce-overhead") or CUDA graphs, a larger batch, or a fused optimizer',
        verify="the GPU should be busier; with twice the batch, a step should take hardly any longer",
    )


def waiting_s(view: View) -> float:
    """Seconds of a step spent waiting for launches, without those that a narrower check reports."""
    return view.parts.parts_s["host_launch"] - _claimed_s(view)


def _claimed_s(view: View) -> float:
    """Seconds of waiting for launches that a narrower check reports: inside the optimizer, or between values read one by one."""
    scene = view.scene
    claimed = []
    if unfused_optimizer.check(view) is not None:
        claimed.append(unfused_optimizer.held(view))
    if scene.on_cpu and host_sync.check(view) is not None:
        claimed.append(host_sync.reading_spans(view))
    waiting = view.parts.idle["host_launch"]
    total = sum(spans.and_(waiting).total_ns for spans in claimed)
    return min(total * 1e-9 / max(scene.steps.steady_count, 1), view.parts.parts_s["host_launch"])


def _on_cpu(lost_s: float, view: View, median: float) -> Finding:
    """Report overhead on a CPU. Small ops are part of it, because larger tensors need fewer of them."""
    small_s = view.work_s(view.scene.kernels & (view.scene.work.duration_ns < _SMALL_NS) & ~view.scene.in_optimizer)
    return Finding(
        code=CODE,
        title="much of the step is overhead between small ops",
        seconds_per_step=lost_s,
        share_fraction=lost_s / view.step_s,
        gain=view.gain(lost_s + small_s, beyond="fewer but larger tensors also shorten the small ops themselves"),
        confidence="medium",
        evidence=(
            f"{counted(view.count(view.scene.kernels), 'op')} {view.per} with a median time of {median * 1e6:.1f} µs",
            f"{lost_s / view.step_s:.1%} of the time is spent in Python, autograd and dispatch rather than in ops",
        ),
        remedy="use torch.compile, a larger batch, or larger tensors instead of loops over small ones",
        verify="ops should take a larger share of the time",
    )
