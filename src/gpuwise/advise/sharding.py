"""Training that no single GPU can hold: several GPUs share weights, gradients and optimizer states (FSDP)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpuwise.advise.candidates import Candidate
from gpuwise.advise.choosing import UserLimits, shortfall
from gpuwise.advise.jobs import NO_BLOCKS, JobPace, Pacer, Tried
from gpuwise.advise.types import Divides
from gpuwise.prediction.ways import room_of

__all__ = ["Divides", "sharing", "unhindered"]

_FSDP = 3  # the ZeRO stage that divides everything
_AT_BEST = 0.7  # of the time of the same set if its GPUs could hold the job by recomputing activations: the best case, assumed
_LARGE = 32  # samples per step and GPU, beyond which the time per sample hardly changes


def unhindered(pacer: Divides, paces: Mapping[str, JobPace]) -> dict[str, float]:
    """Return how many samples per second each GPU would train alone if its memory were unlimited."""
    if not isinstance(pacer, Pacer):
        return {}
    pacer.price((pace.gpu, Tried(pace.choices, (_LARGE,), False)) for pace in paces.values())
    return {name: pacer.pace(pace.gpu, pace.choices, _LARGE).samples_per_s for name, pace in paces.items()}


def sharing(
    pacer: Divides, options: Sequence[Candidate], limits: UserLimits, alone_s: Mapping[str, float] | None = None
) -> Divides:
    """Return a pacer that lets GPUs share a model, in the sets of these options for which that helps. With `alone_s`, the
    seconds that one GPU of each kind would take at least, they do so at the fastest batch that fits.
    """
    sets = _sets_to_share(options, limits, alone_s)
    return _Sharing(pacer=pacer, sets=sets, auto=alone_s is not None) if sets and isinstance(pacer, Pacer) else pacer


def _sets_to_share(
    options: Sequence[Candidate], limits: UserLimits, alone_s: Mapping[str, float] | None
) -> frozenset[tuple[str, int]]:
    """Return the sets of GPUs, by name and number, that the budget covers and of which one alone cannot hold the jobs: all that
    the user has, and others unless something that holds the jobs would still be faster and cheaper. Where there are any, those
    that could hold the jobs are compared with them in the same way. Rewriting a step for each number of GPUs takes a while.
    """
    most = math.inf if limits.budget_usd is None else limits.budget_usd
    able = [one for one in options if not shortfall(one, limits)]
    several = [one for one in options if one.gpu_count > 1 and not one.run.fits and _may_hold(one)]
    costs = [(one, one.total_usd if one.kind == "rent" else one.upfront_usd) for one in several]
    reached = [one for one, usd in costs if usd is not None and usd <= most]
    left = [one for one in reached if one.kind == "keep" or not _is_beaten(one, able, limits, _share_at_best(one, alone_s))]
    sets = {(one.gpu.name, one.gpu_count) for one in left}
    return frozenset(sets | {(one.gpu.name, one.gpu_count) for one in able if _is_held_up(one)} if sets else sets)


def _share_at_best(one: Candidate, alone_s: Mapping[str, float] | None) -> float:
    """Return the share of its time that a set would take at least if its GPUs shared the model: where the batch may grow, the
    present time of the set says little.
    """
    return _AT_BEST if alone_s is None else _AT_BEST * alone_s.get(one.gpu.name, 0.0) / one.gpu_count / one.run.seconds


def _is_held_up(one: Candidate) -> bool:
    """Return whether GPUs that could hold the job wait for each other's gradients: those that share it may send less."""
    return one.gpu_count > 1 and any(pace.bound == "communication" for pace in one.run.paces)


def _may_hold(one: Candidate) -> bool:
    """Return whether the memory of all GPUs together is enough for what one would need."""
    return all(pace.memory_bytes <= one.gpu_count * pace.usable_bytes for pace in one.run.paces)


def _is_beaten(one: Candidate, able: Sequence[Candidate], limits: UserLimits, at_best: float) -> bool:
    """Return whether another option is faster and costs less per run than a set that shares the model at its best; with a
    budget, only speed counts. What is rented does not replace a purchase.
    """
    soon = at_best * one.run.seconds
    cheap = math.inf if limits.budget_usd is not None else at_best * (one.usd_per_run or 0.0)
    rivals = able if one.kind == "rent" else [other for other in able if other.kind != "rent"]
    return any(other.run.seconds <= soon and (other.usd_per_run or math.inf) <= cheap for other in rivals)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sharing:
    """Divides jobs among several GPUs; in these `sets`, the GPUs share a model that one cannot hold."""

    pacer: Pacer
    sets: frozenset[tuple[str, int]]
    auto: bool = False

    def shared(self, paces: Sequence[JobPace], gpu_count: int) -> dict[str, JobPace]:
        """Return the jobs on `gpu_count` of each GPU."""
        pacer, found = self.pacer, self.pacer.shared(paces, gpu_count)
        able = [pace for pace in paces if (pace.gpu.name, gpu_count) in self.sets]
        tried = {pace.gpu: ways for pace in able if (ways := _shared_model(pacer, pace, gpu_count, every=self.auto))}
        if self.auto:
            tried = {gpu: [pacer.every_batch(gpu, one.choices) for one in ways] for gpu, ways in tried.items()}
        pacer.price((gpu, one) for gpu, ways in tried.items() for one in ways)
        shared = {gpu.name: pacer.soonest(gpu, ways) for gpu, ways in tried.items()}
        better = (name for name, one in shared.items() if not found[name].fits or one.samples_per_s > found[name].samples_per_s)
        return found | {name: shared[name] for name in better}


def _shared_model(pacer: Pacer, pace: JobPace, gpu_count: int, *, every: bool) -> list[Tried]:
    """Return how several GPUs hold a training job together; nothing if they cannot. Activations are recomputed only if the job
    does not fit otherwise, unless `every` way is tried: recomputing leaves room for a larger batch, which may be faster.
    """
    room = room_of(pace.gpu)
    if pacer.workload(pace.choices).mode != "train" or room.shared:
        return []
    alone = replace(pace.choices, accumulate=1)
    plain = alone if alone.adapters else replace(alone, checkpoint=NO_BLOCKS)
    found: list[Tried] = []
    for way in dict.fromkeys((plain, alone)):
        if pacer.least_bytes(pace.gpu, Tried(way, (1,), False)) <= gpu_count * room.usable_bytes:  # else rewriting it is in vain
            divided = replace(way, gpu_count=gpu_count, zero_stage=_FSDP)
            if (one := pacer.in_parts(pace.gpu, divided, pace.batch)).fits:
                found.append(one)
                if not every:
                    break
    return found
