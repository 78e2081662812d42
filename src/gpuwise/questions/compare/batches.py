"""What larger batches and accumulated gradients change in a comparison: sets that share a training job then exchange gradients
less often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuwise.core.errors import GpuwiseError
from gpuwise.core.text import are, the
from gpuwise.questions.common.rigs import Rig, Throughput, throughput
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.compare.jobs import RunJob

__all__ = ["describe_batches"]

_TALKS = 0.1  # of the step: less communication leaves little to gain
_GAINS = 1.05  # times the ratio: a smaller change is not worth a sentence
_ACCUMULATED = 8  # micro-batches: the gradients are then exchanged an eighth as often

_Progress = Callable[[str], None]


def describe_batches(ran: Sequence[RunJob], rigs: Sequence[Rig], stack: str, cpu: str, progress: _Progress) -> list[str]:
    """Return for each of the user's training jobs that is slowed down by the exchange of gradients how fast the sets are at the
    largest batch that fits, and with accumulated gradients. Both are computed like the comparison itself.
    """
    if len(rigs) != 2 or rigs[0].count == rigs[1].count:
        return []
    found = [_describe(one, rigs, stack, cpu, progress) for one in ran if _waits(one)]
    return [line for line in found if line]


def _waits(one: RunJob) -> bool:
    """Whether this is a training job that the user named, in which GPUs wait for each other."""
    steps = one.job.mode == "train" and one.job.text is None and one.job.media is None and not one.job.common
    return steps and all(told.fits for told in one.found) and max(map(_talk, one.found)) >= _TALKS


def _talk(told: Throughput) -> float:
    return told.slowest.bound_fractions["communication"]


def _describe(one: RunJob, rigs: Sequence[Rig], stack: str, cpu: str, progress: _Progress) -> str:
    """`on vit_large, 2x RTX 4090 are 1.57 times as fast at batch 64 per GPU, and 1.79 times …`."""
    fast, slow = (1, 0) if rigs[1].count > rigs[0].count else (0, 1)
    micro = min(told.slowest.batch for told in one.found)

    def at(batch: int | str, accumulate: int | None = None) -> tuple[Throughput, ...]:
        options = StepOptions(
            one.job.model,
            mode="train",
            precision=one.job.precision or one.shared,
            batch=batch,
            seq=one.job.seq,
            method=one.job.method,
            stack=stack,
            cpu=cpu,
            accumulate=accumulate,
        )
        try:
            told = tuple(throughput(rig, options, progress) for rig in rigs)
        except GpuwiseError:  # the model takes no such batch
            return ()
        return told if all(each.fits for each in told) else ()

    now = one.found[fast].together_per_s / one.found[slow].together_per_s
    gains = []
    larger = at("auto") if one.job.batch != 0 else ()
    if larger and (size := min(told.slowest.batch for told in larger)) > micro:
        gains.append((larger, f"with a batch of {size} on each GPU"))
    every = f"with gradients accumulated over {_ACCUMULATED} micro-batches of {micro}"
    gains.append((at(_ACCUMULATED * micro, _ACCUMULATED), every))
    ratios = [(told[fast].together_per_s / told[slow].together_per_s, how) for told, how in gains if told]
    parts = [f"{_times(ratio)} {how}" for ratio, how in ratios if ratio >= _GAINS * now]
    name, because = rigs[fast].name, "because gradients are then exchanged less often"
    with_one = f"with one job, {the(name)} {are(name)}"
    return f"{with_one} {', and '.join(parts)}, compared with {the(rigs[slow].name)}, {because}" if parts else ""


def _times(ratio: float) -> str:
    return f"{ratio:.2f} times as fast" if ratio >= 1 else f"{ratio:.0%} as fast"
