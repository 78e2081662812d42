"""Communication is not hidden behind compute.

## What it detects
This check looks for NCCL or RCCL kernels (or gloo calls on a CPU) that run while no other kernel does, for at least 10%
of the step.

## Why it costs time
Gradients could be exchanged while the rest of the backward pass runs. Communication that is not hidden makes the step
longer on every rank.

## What to do
Use larger DDP buckets (`bucket_cap_mb`) and `gradient_as_bucket_view=True`, FSDP prefetch, `no_sync()` while
accumulating, 16-bit gradients or a faster link. For inference, split the model across fewer GPUs or overlap two batches.
Check `straggler` first, because a rank may spend most of a collective waiting for the slowest rank.

## Confidence
Confidence in the measured time is high. The upper end of the gain assumes that all of this time is hidden. The lower end comes
from a replay that keeps three quarters of it. In this replay, the host may become the next bottleneck. A single rank
does not show how much of a collective is spent waiting for other ranks.
"""

from __future__ import annotations

from gpuwise.core.text import counted
from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View

__all__ = ["CODE", "check_waiting"]

CODE = "exposed_comm"
_THRESHOLD = 0.1
_LIKELY = 0.75
_IN_TRAINING = (
    "check for a slow rank first; then use larger buckets, prefetching or 16-bit gradients, or accumulate under no_sync()"
)
_IN_INFERENCE = (
    "check for a slow rank first, then split the model across fewer GPUs, use GPUs with a faster link, "
    "or overlap two batches so that one computes while the other communicates"
)


def check_waiting(view: View, waiting_s: float = 0.0) -> Finding | None:
    """Find collectives that run alone, without the wait for a late rank that `straggler` already reports."""
    exposed = view.facts.communication_exposed_fraction
    lost_s = max(view.parts.parts_s["communication"] - waiting_s, 0.0)
    share = max(exposed - waiting_s / view.step_s, lost_s / view.step_s)
    if share < _THRESHOLD:
        return None
    chosen = view.scene.is_class("communication")
    hidden = view.parts.hidden_communication_s
    return Finding(
        code=CODE,
        title="communication is not hidden behind compute",
        seconds_per_step=share * view.step_s,
        share_fraction=share,
        gain=view.gain(lost_s) if view.scene.on_cpu else view.gain(lost_s, likely=view.shrink(chosen, _LIKELY)),
        confidence="high",
        evidence=(
            f"{counted(view.count(chosen), 'collective')} {view.per}; collectives run alone for {share:.1%} of the time",
            f"{hidden / max(hidden + lost_s + waiting_s, 1e-12):.0%} of communication time is hidden",
        ),
        remedy=_IN_TRAINING if view.scene.trains else _IN_INFERENCE,
        verify=f"in the profile, collectives should {'overlap with backward kernels' if view.scene.trains else 'take less time'}",
    )
