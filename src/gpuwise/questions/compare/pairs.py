"""Compares one set of GPUs with another on a job: the ratio of their speeds, its range, and the reasons."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.evidence.ranges import pair_range, probability_above, ratio_range
from gpuwise.hardware.order import is_better
from gpuwise.questions.common.language.answer import LanguagePrediction
from gpuwise.questions.common.prediction_types import Prediction
from gpuwise.questions.common.rigs import Rig, Throughput
from gpuwise.questions.compare.jobs import ComparedJob, RunJob
from gpuwise.questions.compare.language_jobs import explain_text_ratio, offloaded, text_ratio_width
from gpuwise.questions.compare.reasons import explain_ratio
from gpuwise.questions.compare.types import Pair

__all__ = ["pairs_between", "same_gpu"]


def same_gpu(rigs: Sequence[Rig]) -> bool:
    """Whether all sets have the same single kind of GPU and differ only in number."""
    return len({gpu.name for rig in rigs for gpu, _ in rig.parts}) == 1


def pairs_between(ran: Sequence[RunJob], rigs: Sequence[Rig], base: int, other: int) -> list[Pair]:
    """Every job on the set at `other`, compared with the set at `base`."""
    return [_pair(one.job, rigs[base], one.found[base], rigs[other], one.found[other]) for one in ran]


def _pair(job: ComparedJob, base: Rig, first: Throughput, rig: Rig, other: Throughput) -> Pair:
    ratio = other.together_per_s / first.together_per_s
    one, two = first.slowest, other.slowest
    low, high, basis = _width(rig, base, one, two)
    low, high = _ordered(rig, base, ratio, ratio * low, ratio * high)
    return Pair(
        gpu=rig.name,
        baseline=base.name,
        workload=job.title,
        precision=_precision(one, two),
        batch=two.batch,
        baseline_batch=one.batch,
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
        range_basis=basis,
        probability=probability_above(low, high, middle=ratio),
        ratio_separate=other.separate_per_s / first.separate_per_s if first.separate_fits and other.separate_fits else None,
        fits=other.fits,
        baseline_fits=first.fits,
        helped=bool(offloaded(one) or offloaded(two)),
        why=explain_text_ratio(one, two) or explain_ratio(one, two, ratio),
    )


def _width(rig: Rig, base: Rig, first: Prediction, told: Prediction) -> tuple[float, float, str]:
    """Return the ends of the range for a ratio of speeds, and what they are based on."""
    if isinstance(told, LanguagePrediction):
        width = text_ratio_width(first, told)
        return 1.0 / width, width, "assumed"
    # Ranges are of times; the ratio of speeds is the inverse ratio of times. With the same GPU in both sets, its error cancels.
    found = ratio_range(known=True) if same_gpu((rig, base)) else pair_range(rig.gpu, base.gpu)
    return found.low, found.high, "measured" if found.rows else "assumed"


def _ordered(rig: Rig, base: Rig, ratio: float, low: float, high: float) -> tuple[float, float]:
    """Return the range of a ratio without values that would put the better of two GPUs of one architecture behind the other."""
    if not rig.count == base.count == rig.parts[0][1] == base.parts[0][1]:
        return low, high
    if is_better(rig.gpu, base.gpu):
        return max(low, min(ratio, 1.0)), high
    return (low, min(high, max(ratio, 1.0))) if is_better(base.gpu, rig.gpu) else (low, high)


def _precision(base: Prediction, other: Prediction) -> str:
    """Return the type in which both compute or, for text generation, store their weights."""
    one, two = (told.generation.weights if isinstance(told, LanguagePrediction) else told.precision for told in (base, other))
    return two if two == one else f"{two} against {one}"
