"""Why one GPU is faster than another on a job: what limits each, and how much of it the other has."""

from __future__ import annotations

from gpuwise.core.text import share_of, the
from gpuwise.questions.common.prediction_types import Prediction

__all__ = ["explain_ratio"]

_RESOURCES = {"memory": "bandwidth", "compute": "arithmetic throughput"}
_SHARE = 0.15  # of the step: a limit that takes less cannot explain a ratio
_LIMITS = {
    "launch": "by the host",
    "communication": "by the link between GPUs",
    "copy": "by copying inputs to the GPU",
    "input": "by the data loader",
}
_MORE_CACHE, _LESS_CACHE = 1.5, 0.67  # times the cache: what lies between changes memory traffic little


def explain_ratio(base: Prediction, other: Prediction) -> str:
    """One clause on why `other` is faster or slower than `base`."""
    if not other.fits or not base.fits:
        short = other if not other.fits else base
        where = "either GPU" if not other.fits and not base.fits else the(short.gpu.name)
        return f"does not fit on {where} (needs {short.memory.total_bytes / 2**30:.1f} GiB)"
    if other.bound == "launch":
        return "limited by the host, so a faster GPU hardly helps"
    if base.bound != other.bound:
        return f"{_describe_own_limit(base, other)}; {_describe_base_limit(base, other)}"
    if other.bound == "memory":
        cache = _cache_bytes(other) / (_cache_bytes(base) or float("inf"))
        size = f"{cache:.2g} times the cache" if cache >= 1 else f"{cache:.0%} of the cache"
        more = f" and {size}" if cache >= _MORE_CACHE or 0 < cache <= _LESS_CACHE else ""
        bandwidth = _resource_ratio("memory", base, other)
        second = _describe_second("compute", base, other)
        return f"limited by memory: it has {share_of(bandwidth, 'the bandwidth')}{more} of {the(base.gpu.name)}{second}"
    if other.bound == "compute":
        arithmetic = _resource_ratio("compute", base, other)
        second = _describe_second("memory", base, other)
        return f"limited by compute: it has {share_of(arithmetic, 'the arithmetic throughput')} of {the(base.gpu.name)}{second}"
    return f"limited {_LIMITS[other.bound]}"


def _cache_bytes(result: Prediction) -> float:
    return (result.gpu.l2_bytes or 0.0) + (result.gpu.l3_bytes or 0.0)


def _describe_second(second: str, base: Prediction, other: Prediction) -> str:
    """The second limit of the step, where the first alone would suggest the wrong order."""
    faster = other.samples_per_s / other.gpu_count > base.samples_per_s / base.gpu_count
    ratio, share = _resource_ratio(second, base, other), other.bound_fractions[second]
    if (_resource_ratio(other.bound, base, other) > 1) == faster or (ratio > 1) != faster or share < _SHARE:
        return ""
    return f", but {share_of(ratio, f'the {_RESOURCES[second]}')}, which limits {share:.0%} of the step"


def _describe_own_limit(base: Prediction, other: Prediction) -> str:
    """What limits the step of `other`, and how much of that it has relative to `base`."""
    if other.bound in _LIMITS:
        return f"limited {_LIMITS[other.bound]}"
    ratio, resource = _resource_ratio(other.bound, base, other), _RESOURCES[other.bound]
    return f"limited by {other.bound} (it has {share_of(ratio, f'the {resource}')} of {the(base.gpu.name)})"


def _describe_base_limit(base: Prediction, other: Prediction) -> str:
    """What limits the step of `base`, and how much of that `other` has relative to it."""
    if base.bound in _LIMITS:
        return f"{the(base.gpu.name)} is limited {_LIMITS[base.bound]}"
    ratio, resource = _resource_ratio(base.bound, base, other), _RESOURCES[base.bound]
    return f"{the(base.gpu.name)} is limited by {base.bound} ({the(other.gpu.name)} has {share_of(ratio, f'its {resource}')})"


def _resource_ratio(bound: str, base: Prediction, other: Prediction) -> float:
    """How many times the bandwidth or arithmetic of the first GPU the other one has."""
    if bound == "memory":
        return other.gpu.memory_bytes_per_s / base.gpu.memory_bytes_per_s
    return (other.peak_flops_per_s or 1.0) / (base.peak_flops_per_s or 1.0)
