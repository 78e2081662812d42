"""Training that no single GPU can hold: several GPUs share weights, gradients and optimizer states (FSDP)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuwise.advise.candidates import Candidate
from gpuwise.advise.choosing import UserLimits, shortfall
from gpuwise.advise.jobs import NO_BLOCKS, JobPace, Pacer, Tried
from gpuwise.advise.types import Divides
from gpuwise.prediction.ways import room_of

__all__ = ["Divides", "sharing"]

_FSDP = 3  # the ZeRO stage that divides everything
_AT_BEST = 0.7  # of the time of the same set if its GPUs could hold the job by recomputing activations: the best case, assumed


def sharing(pacer: Divides, options: Sequence[Candidate], limits: UserLimits) -> Divides:
    """Return a pacer that lets GPUs share a model, in the sets of these options for which that helps."""
    sets = _sets_to_share(options, limits)
    return _Sharing(pacer=pacer, sets=sets) if sets and isinstance(pacer, Pacer) else pacer


def _sets_to_share(options: Sequence[Candidate], limits: UserLimits) -> frozenset[tuple[str, int]]:
    """Return the sets of GPUs, by name and number, that the budget covers and of which one alone cannot hold the jobs: all that
    the user has, and others unless something that holds the jobs would still be faster and cheaper. Rewriting a step for each
    number of GPUs takes a while.
    """
    most = math.inf if limits.budget_usd is None else limits.budget_usd
    able = [one for one in options if not shortfall(one, limits)]
    several = [one for one in options if one.gpu_count > 1 and not one.run.fits and _may_hold(one)]
    costs = [(one, one.total_usd if one.kind == "rent" else one.upfront_usd) for one in several]
    reached = [one for one, usd in costs if usd is not None and usd <= most]
    return frozenset((one.gpu.name, one.gpu_count) for one in reached if one.kind == "keep" or not _is_beaten(one, able, limits))


def _may_hold(one: Candidate) -> bool:
    """Return whether the memory of all GPUs together is enough for what one would need."""
    return all(pace.memory_bytes <= one.gpu_count * pace.usable_bytes for pace in one.run.paces)


def _is_beaten(one: Candidate, able: Sequence[Candidate], limits: UserLimits) -> bool:
    """Return whether another option is faster and costs less per run than a set that shares the model at its best; with a
    budget, only speed counts. What is rented does not replace a purchase.
    """
    soon = _AT_BEST * one.run.seconds
    cheap = math.inf if limits.budget_usd is not None else _AT_BEST * (one.usd_per_run or 0.0)
    rivals = able if one.kind == "rent" else [other for other in able if other.kind != "rent"]
    return any(other.run.seconds <= soon and (other.usd_per_run or math.inf) <= cheap for other in rivals)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sharing:
    """Divides jobs among several GPUs; in these `sets`, the GPUs share a model that one cannot hold."""

    pacer: Pacer
    sets: frozenset[tuple[str, int]]

    def shared(self, paces: Sequence[JobPace], gpu_count: int) -> dict[str, JobPace]:
        """Return the jobs on `gpu_count` of each GPU."""
        pacer, found = self.pacer, self.pacer.shared(paces, gpu_count)
        able = [pace for pace in paces if (pace.gpu.name, gpu_count) in self.sets]
        tried = {pace.gpu.name: (pace, one) for pace in able if (one := _shared_model(pacer, pace, gpu_count))}
        pacer.price((pace.gpu, one) for pace, one in tried.values())
        return found | {name: pacer.pace(pace.gpu, one.choices, pace.batch) for name, (pace, one) in tried.items()}


def _shared_model(pacer: Pacer, pace: JobPace, gpu_count: int) -> Tried | None:
    """Return how several GPUs hold a training job that one cannot hold, or None if they need not or cannot. Activations are
    recomputed only if the job does not fit otherwise.
    """
    room = room_of(pace.gpu)
    if pace.fits or pacer.workload(pace.choices).mode != "train" or room.shared:
        return None
    alone = replace(pace.choices, accumulate=1)
    plain = alone if alone.adapters else replace(alone, checkpoint=NO_BLOCKS)
    for way in dict.fromkeys((plain, alone)):
        if pacer.least_bytes(pace.gpu, Tried(way, (1,), False)) <= gpu_count * room.usable_bytes:  # else rewriting it is in vain
            divided = replace(way, gpu_count=gpu_count, zero_stage=_FSDP)
            if (one := pacer.in_parts(pace.gpu, divided, pace.batch)).fits:
                return one
    return None
