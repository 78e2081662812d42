"""One rank keeps the others waiting.

## What it detects
This check looks for collectives that take much longer on some ranks than on others. It reads the traces of several
ranks, or one file with several GPUs. A collective ends at the same time on all ranks, so the rank that spends the least
time in it arrived last and the others waited for it. This method does not depend on the hosts' clocks. Within a process
group, the nth collective of a kind on one rank is compared with the nth on the others. The check reports a rank if the
wait takes at least 5% of the step and the same rank is late in most steps. The finding also says what that rank spends
more time on. Across many GPUs (`gpuwise watch --prometheus`), it reports a GPU whose clock under load is at least 5%
below the median of its peers, or that is busy for at least 10% less time. A GPU that waits for its host is less busy,
while its peers look busy because they wait for it inside collectives.

## Why it costs time
Every rank runs at the pace of the slowest. A slow loader, a throttled GPU, a busy host or uneven data on one rank slows
down all ranks.

## What to do
Start with what takes longer on the late rank than on a typical one. The cause may be the late rank's data loader, other
work on its host, slower kernels (because of a lower clock or a higher temperature) or more kernels (because of uneven
sequence lengths, experts or embedding tables). gpuwise also runs the other checks on the late rank.

## Confidence
Confidence is high or medium, depending on how large the wait is, and low if there are fewer than three steps. The upper
end of the gain assumes that the late rank arrives together with the median rank. The lower end is half of that gain.
Across many GPUs, confidence is medium if labels name the shared job, and low if the peers are inferred from host and
product. Memory-bound work does not scale with the clock, so the lower end assumes a third of the gain that the clock
suggests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from gpuwise.diagnose.culprit import Cause, why_late
from gpuwise.diagnose.fleet import Member, Named
from gpuwise.diagnose.ranks import MOSTLY, Late, Rank, in_one_file, late_rank, typical
from gpuwise.diagnose.types import Abstained, Finding, Gain
from gpuwise.diagnose.view import View

__all__ = ["CODE", "check_peers", "check_ranks"]

CODE = "straggler"
_THRESHOLD = 0.05
_SURE = 0.1
_NAMED = 4
_FEW_PEERS = 3
_FEW_SAMPLES = 3
_WORKS = 0.3  # least busy share: an idle GPU is not part of the job
_SLOW_CLOCK = 0.95
_LESS_BUSY = 0.9
_FOLLOWS = 1 / 3
_THIN = "only one step was recorded, so the evidence is limited"
_UNTOLD = "nothing in the recording takes longer on this rank than on a typical one"


def check_ranks(
    ranks: Sequence[Rank], checked: Callable[[View], Sequence[Finding]] = lambda view: ()
) -> Finding | Abstained | None:
    """Compare the time inside collectives rank by rank, and say why the last one is late. `checked` is what other checks find."""
    world = max((rank.view.scene.trace.world_size or 0 for rank in ranks), default=0)
    if len(ranks) < 2:
        if world < 2:
            return None
        return Abstained(
            code=CODE,
            reason=f"only one of {world} ranks was given",
            record_next="pass the traces of all ranks, such as `gpuwise why trace_folder/`",
        )
    late = late_rank(ranks)
    if late is None:
        return Abstained(
            code=CODE,
            reason="the ranks have no collectives that can be compared",
            record_next="record the same steps on all ranks",
        )
    usual = typical(ranks).view
    if late.lost_s < _THRESHOLD * usual.step_s or late.often_fraction < MOSTLY:
        return None
    view = ranks[late.place].view
    return _finding(ranks, late, usual.step_s, why_late(view, usual, late.lost_s, checked(view), checked(usual)))


def _finding(ranks: Sequence[Rank], late: Late, step: float, cause: Cause | None) -> Finding:
    name = ranks[late.place].label
    others = ", ".join(f"{rank.label} {wait * 1e3:.2f}" for rank, wait in zip(ranks, late.waits_s, strict=True))
    one = "GPU" if in_one_file(ranks) else "rank"
    who = f"{one}s"
    title = f"the other {one} waits for {name}" if len(ranks) == 2 else f"the other {who} wait for {name}"
    title = f"{title} in collectives"
    evidence = [f"time in collectives, in ms per step: {others}"]
    if late.matched:
        evidence.append(f"{name} is the last to reach {late.last_of} of {late.matched} collectives")
    if late.also:
        evidence.append("also last to reach some collectives: " + ", ".join(ranks[place].label for place in late.also[:_NAMED]))
    evidence.append(
        f"{name} is the last in {late.often_fraction:.0%} of {late.step_count} steps" if late.step_count > 1 else _THIN
    )
    share = late.lost_s / step
    return Finding(
        code=CODE,
        title=title if cause is None else f"{title}, because {cause.because}",
        seconds_per_step=late.lost_s,
        share_fraction=share,
        gain=Gain(low=step / max(step - 0.5 * late.lost_s, 0.05 * step), high=step / max(step - late.lost_s, 0.05 * step)),
        confidence="low" if late.step_count < 3 else "high" if share >= _SURE else "medium",
        evidence=(*evidence, *([_UNTOLD] if cause is None else cause.evidence)),
        remedy=f"check what {name} does before its collectives, and check its data loader, clock and share of the data"
        if cause is None
        else f"on {name}, {cause.remedy}",
        verify=f"the time in collectives should be similar on all {who}",
    )


def check_peers(members: Sequence[Member]) -> list[Named]:
    """Find GPUs that are slower than their peers. If one job has several, only the slowest holds up the whole job."""
    groups: dict[str, list[int]] = defaultdict(list)
    for number, member in enumerate(members):
        gpu = member.vitals
        if (gpu.busy_fraction or 0.0) >= _WORKS and gpu.sample_count >= _FEW_SAMPLES and not member.silent_s:
            groups[member.peers].append(number)
    found = []
    for numbers in groups.values():
        if len(numbers) >= _FEW_PEERS:
            found += _slow_ones(members, numbers)
    return found


def _slow_ones(members: Sequence[Member], numbers: Sequence[int]) -> list[Named]:
    gpus = [members[number].vitals for number in numbers]
    clocks = [gpu.clock_hz or np.nan if gpu.load_count >= _FEW_SAMPLES else np.nan for gpu in gpus]
    busy = [gpu.busy_fraction or np.nan for gpu in gpus]
    clock, work = float(np.nanmedian(clocks)) if np.isfinite(clocks).any() else np.nan, float(np.nanmedian(busy))
    slow = []
    for number, own_clock, own_busy in zip(numbers, clocks, busy, strict=True):
        by_clock, by_work = own_clock / clock, own_busy / work
        if by_clock < _SLOW_CLOCK or by_work < _LESS_BUSY:
            slow.append((float(np.nanmin([by_clock, by_work])), number, by_clock, by_work))
    told = []
    for place, (ratio, number, by_clock, by_work) in enumerate(sorted(slow)):
        member = members[number]
        lines = [f"one of {len(numbers)} busy GPUs ({member.peers})"]
        if by_clock < _SLOW_CLOCK:
            lines.append(f"clock {by_clock * clock / 1e6:,.0f} MHz under load, compared with a median of {clock / 1e6:,.0f} MHz")
        if by_work < _LESS_BUSY:
            lines.append(f"busy {by_work * work:.0%} of the time, compared with a median of {work:.0%}")
        told.append(Named(number=number, finding=_slow_one(member, ratio, lines), holds=0 if place else len(numbers)))
    return told


def _slow_one(member: Member, ratio: float, lines: Sequence[str]) -> Finding:
    return Finding(
        code=CODE,
        title=f"{member.vitals.name} is slower than its peers, which must wait for it if they run the same job",
        seconds_per_step=0.0,
        share_fraction=1.0 - ratio,
        gain=Gain(low=1.0 + _FOLLOWS * (1.0 / ratio - 1.0), high=1.0 / ratio),
        confidence="low" if member.assumed else "medium",
        evidence=tuple(lines),
        remedy="if its clock is lower, check its temperature, power and clock settings; if it is less busy, "
        "check its host, data loader "
        "and share of the data",
        verify="clock and load should be similar on all GPUs in the job",
    )
