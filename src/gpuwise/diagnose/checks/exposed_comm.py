"""Communication is not hidden behind compute.

## What it sees
NCCL or RCCL kernels (gloo calls on a CPU) during which no other kernel runs, of 10 % of the step or more.

## Why it costs time
Gradients could travel while the rest of the backward pass computes. What is not hidden adds to the step, on every rank.

## What to do
Larger DDP buckets (`bucket_cap_mb`) and `gradient_as_bucket_view=True`; FSDP prefetch; `no_sync()` while accumulating; 16-bit
gradients; a faster link. Look at `straggler` first: a collective also waits inside itself for the slowest rank.

## How sure
High for the time. The upper end hides all of it, the lower end is a replay with three quarters of it left, in which the host
may be the next limit. How much of a collective is waiting for other ranks cannot be told from one rank.
"""

from __future__ import annotations

from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View

__all__ = ["CODE", "check_waiting"]

CODE = "exposed_comm"
_THRESHOLD = 0.1
_LIKELY = 0.75


def check_waiting(view: View, waiting_s: float = 0.0) -> Finding | None:
    """Collectives with nothing beside them, less what is told already as waiting for a late rank."""
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
            f"{view.count(chosen):,.0f} collectives {view.per}; {share:.1%} of the time only they run",
            f"{hidden / max(hidden + lost_s + waiting_s, 1e-12):.0%} of communication is hidden",
        ),
        remedy="larger buckets, prefetch, no_sync() while accumulating, 16-bit gradients; check for a slow rank first",
        verify="collectives should lie beside backward kernels in the profile",
    )
