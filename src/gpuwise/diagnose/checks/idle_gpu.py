"""A GPU is almost idle.

## What it detects
Across many GPUs (`gpuwise watch --prometheus`), this check looks for GPUs that were busy for less than 5% of the
window. If a process occupies memory on the GPU, the GPU is reserved but idle. Otherwise, it is unused. In a trace with
several GPUs that exchange nothing through collectives, it looks for GPUs that take turns, so that each waits for at
least 15% of the step while another one works. It also looks for a GPU that is busy for at most 70% as long as the
busiest one.

## Why it costs time
An idle GPU costs money but does no work. While a process occupies its memory, other jobs may not be able to use it.
GPUs that hold different layers of a model work one after the other, so several of them are no faster than one.

## What to do
If memory is occupied, find the process with `nvidia-smi` on the host. It may be a notebook that was left open, or a job
that hangs or waits for data. If no memory is occupied, give the GPU to a waiting job or release it. If GPUs take turns, give
each one a whole model (data parallelism) if it fits, split each layer (tensor parallelism), or send several
micro-batches through the layers at once (pipeline parallelism). If one GPU has less to do than the others, spread the work
evenly.

## Confidence
Confidence in the measurement is high. The metrics do not show whether there was work to do, so the range of the gain
starts at 1.0 (no gain). For a trace, confidence is medium. The upper end of the gain assumes that the work is spread
evenly and that all GPUs work at once. The lower end assumes that this eliminates only a third of the idle time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuwise.diagnose.checks import wrong_backend
from gpuwise.diagnose.culprit import why_late
from gpuwise.diagnose.fleet import Member
from gpuwise.diagnose.ranks import Rank, late_rank, typical
from gpuwise.diagnose.types import Finding, Gain
from gpuwise.diagnose.view import View

__all__ = ["CODE", "check_member", "check_ranks"]

CODE = "idle_gpu"
_BUSY = 0.05
_FEW = 3
_HELD_BYTES = 1e9  # a context alone takes less; shared_gpu has the same threshold
_MOST = 20.0
_THRESHOLD = 0.15
_LESS_BUSY = 0.7
_LIKELY = 1 / 3


def check_member(member: Member) -> Finding | None:
    """Find a GPU that is busy for less than a twentieth of the time."""
    gpu = member.vitals
    if gpu.busy_fraction is None or gpu.sample_count < _FEW or gpu.busy_fraction >= _BUSY:
        return None
    held = (member.memory_used_bytes or 0.0) >= _HELD_BYTES
    power = "" if gpu.power_watts is None else f", {gpu.power_watts:.0f} W"
    memory = "memory use unknown" if member.memory_used_bytes is None else f"{member.memory_used_bytes / 1e9:.1f} GB occupied"
    return Finding(
        code=CODE,
        title=f"{gpu.name} is almost idle" + (", but its memory is occupied" if held else ""),
        seconds_per_step=0.0,
        share_fraction=1.0 - gpu.busy_fraction,
        gain=Gain(low=1.0, high=min(1.0 / max(gpu.busy_fraction, 1e-9), _MOST)),
        confidence="high",
        evidence=(f"busy {gpu.busy_fraction:.1%}{power}, {memory}",),
        remedy="if memory is occupied, find the process that uses it; otherwise, give the GPU to a waiting job or release it",
        verify="the GPU should be busy, or should no longer be listed",
    )


def check_ranks(ranks: Sequence[Rank], checked: Callable[[View], Sequence[Finding]]) -> Finding | None:
    """Find GPUs of one file that take turns, or one that has less to do. `checked` is what other checks find on a GPU."""
    if len(ranks) < 2 or not all(rank.of_several for rank in ranks) or late_rank(ranks) is not None:
        return None
    usual = typical(ranks).view
    if wrong_backend.check(usual) is not None:
        return None
    busy = [rank.view.facts.busy_fraction for rank in ranks]
    listed = ", ".join(f"{rank.label} {share:.0%}" for rank, share in zip(ranks, busy, strict=True))
    mean = sum(busy) / len(busy)
    if usual.parts.share("other_gpus") >= _THRESHOLD:
        title = "the GPUs take turns, so each waits while another one works"
        remedy = (
            "if the model fits on one GPU, give each GPU a copy and a part of the batch; otherwise, split each layer across "
            "the GPUs or use pipeline parallelism with several micro-batches"
        )
        return _in_trace(usual, title, usual.parts.share("other_gpus"), mean, [f"busy: {listed}"], remedy)
    least = min(ranks, key=lambda rank: rank.view.facts.busy_fraction)
    share = max(busy) - mean
    if min(busy) > _LESS_BUSY * max(busy) or share < _THRESHOLD / 2:
        return None
    idle_s = (max(busy) - min(busy)) * usual.step_s
    cause = why_late(least.view, usual, idle_s, checked(least.view), checked(usual))
    idle = f"{least.label} is busy only {min(busy):.0%} of the time, while another GPU is busy {max(busy):.0%}"
    if cause is None:
        remedy = "spread the work evenly across the GPUs, or use fewer of them"
        return _in_trace(usual, idle, share, 1.0 - share, [f"busy: {listed}"], remedy)
    lines = [f"busy: {listed}", *cause.evidence]
    return _in_trace(usual, f"{idle}, because {cause.because}", share, 1.0 - share, lines, f"on {least.label}, {cause.remedy}")


def _in_trace(view: View, title: str, share: float, left: float, evidence: Sequence[str], remedy: str) -> Finding:
    """A finding of a trace. `left` is the share of the step that remains if all GPUs work at once."""
    return Finding(
        code=CODE,
        title=title,
        seconds_per_step=share * view.step_s,
        share_fraction=share,
        gain=Gain(low=1.0 / (1.0 - _LIKELY * min(share, 1.0 - left)), high=1.0 / max(left, 1.0 - share, 1.0 / _MOST)),
        confidence="medium",
        evidence=tuple(evidence),
        remedy=remedy,
        verify="all GPUs should be busy for about the same share of the step",
    )
