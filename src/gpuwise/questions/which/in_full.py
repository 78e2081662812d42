"""How language models are trained: in full where only a set of GPUs holds the model by sharing it (FSDP), and on which cards."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuwise.advise.candidates import Candidate
from gpuwise.advise.choosing import UserLimits, shortfall
from gpuwise.hardware.types import Gpu, supported
from gpuwise.prediction.choices import METHODS
from gpuwise.prediction.ways import room_of
from gpuwise.questions.common.jobs import Priced, only, price_jobs
from gpuwise.questions.which.ask import WhichQuery

__all__ = ["in_full", "with_bf16"]


def in_full(
    query: WhichQuery,
    priced: Sequence[Priced],
    reached: Sequence[tuple[Gpu, int]],
    every: Sequence[Gpu],
    options_of: Callable[[Sequence[Priced]], Sequence[Candidate]],
) -> list[Priced]:
    """Return the jobs trained in full instead of with adapters, if one of the sets that can be `reached` holds and finishes
    them all; otherwise nothing.
    """
    most = max((count * room_of(gpu).usable_bytes for gpu, count in reached), default=0.0)
    needs = [one.skipped[0][1] for one in priced if _has_adapters(one)]
    if not needs or max(needs) > most:  # rewriting a step for each number of GPUs would be in vain
        return []
    jobs = [only(one.job, one.skipped[0][0] if _has_adapters(one) else one.way) for one in priced]
    full = price_jobs(jobs, every, query.asked)
    sets = {(gpu.name, count) for gpu, count in reached}
    able = (one for one in options_of(full) if not shortfall(one, query.limits))
    return full if any((one.gpu.name, one.gpu_count) in sets for one in able) else []


def with_bf16(options: Sequence[Candidate], limits: UserLimits) -> list[Candidate]:
    """Return the options without GPUs that lack bf16, in which language models are trained, if there are others to buy."""
    able = [one for one in options if one.kind == "keep" or "bf16" in supported(one.gpu)]
    return able if any(one.kind.startswith("buy") and not shortfall(one, limits) for one in able) else list(options)


def _has_adapters(one: Priced) -> bool:
    """Return whether adapters are trained because the usual training fits on no single GPU."""
    return one.way in METHODS and bool(one.skipped) and one.skipped[0][0] not in METHODS
