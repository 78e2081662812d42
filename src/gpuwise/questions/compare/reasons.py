"""Why one GPU is faster than another on a job: what holds each up, and how much of it the other has."""

from __future__ import annotations

from gpuwise.questions.common.prediction_types import Prediction

__all__ = ["why"]

_NAMES = {"memory": "bandwidth", "compute": "arithmetic"}
_FELT = 0.15  # of the step: less explains no ratio


def why(base: Prediction, other: Prediction) -> str:
    if not other.fits or not base.fits:
        short = other if not other.fits else base
        where = "either" if not other.fits and not base.fits else short.gpu.name
        return f"does not fit {where} ({short.memory.total_bytes / 2**30:.1f} GiB needed)"
    if other.bound == "launch":
        return "held up by the host: a faster GPU hardly helps"
    if base.bound != other.bound:
        return f"bound {_held_by(other.bound, base, other)}; {base.gpu.name} {_held_by(base.bound, base, other)}"
    if other.bound == "memory":
        cache = _cache_bytes(other) / (_cache_bytes(base) or float("inf"))
        more = f", {cache:.2g} times the cache" if cache >= 1.5 or 0 < cache <= 0.67 else ""
        return f"bound by memory: {_more('memory', base, other):.2f} times the bandwidth{more}{_also('compute', base, other)}"
    if other.bound == "compute":
        return f"bound by compute: {_more('compute', base, other):.2f} times the arithmetic{_also('memory', base, other)}"
    return f"bound {_held_by(other.bound, base, other)}"


def _cache_bytes(result: Prediction) -> float:
    return (result.gpu.l2_bytes or 0.0) + (result.gpu.l3_bytes or 0.0)


def _also(second: str, base: Prediction, other: Prediction) -> str:
    """What else holds the step up, where the first alone would tell the wrong order."""
    faster = other.samples_per_s / other.gpu_count > base.samples_per_s / base.gpu_count
    more, share = _more(second, base, other), other.bound_fractions[second]
    if (_more(other.bound, base, other) > 1) == faster or (more > 1) != faster or share < _FELT:
        return ""
    return f", but {more:.2f} times the {_NAMES[second]}, which holds up {share:.0%} of the step"


def _held_by(bound: str, base: Prediction, other: Prediction) -> str:
    """What holds a step up, and how much more of it the other GPU has, where that can be told."""
    words = {"launch": "by its host", "communication": "by the link between GPUs", "copy": "by copies", "input": "by its inputs"}
    return words.get(bound) or f"by {bound}: {_more(bound, base, other):.2f} times"


def _more(bound: str, base: Prediction, other: Prediction) -> float:
    """How many times as much the other GPU has of what holds a step up: bandwidth or arithmetic."""
    if bound == "memory":
        return other.gpu.memory_bytes_per_s / base.gpu.memory_bytes_per_s
    return (other.peak_flops_per_s or 1.0) / (base.peak_flops_per_s or 1.0)
