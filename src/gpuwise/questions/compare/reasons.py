"""Why one GPU is faster than another on a job: what limits each, and how much of it the other has."""

from __future__ import annotations

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
        where = "either GPU" if not other.fits and not base.fits else short.gpu.name
        return f"does not fit on {where} (needs {short.memory.total_bytes / 2**30:.1f} GiB)"
    if other.bound == "launch":
        return "limited by the host, so a faster GPU hardly helps"
    if base.bound != other.bound:
        first, second = (_describe_limit(bound, base, other) for bound in (other.bound, base.bound))
        return f"limited {first}; {base.gpu.name} is limited {second}"
    if other.bound == "memory":
        cache = _cache_bytes(other) / (_cache_bytes(base) or float("inf"))
        more = f" and {cache:.2g} times the cache" if cache >= _MORE_CACHE or 0 < cache <= _LESS_CACHE else ""
        bandwidth = _resource_ratio("memory", base, other)
        return f"limited by memory: it has {bandwidth:.2f} times the bandwidth{more}{_describe_second('compute', base, other)}"
    if other.bound == "compute":
        arithmetic = _resource_ratio("compute", base, other)
        second = _describe_second("memory", base, other)
        return f"limited by compute: it has {arithmetic:.2f} times the arithmetic throughput{second}"
    return f"limited {_describe_limit(other.bound, base, other)}"


def _cache_bytes(result: Prediction) -> float:
    return (result.gpu.l2_bytes or 0.0) + (result.gpu.l3_bytes or 0.0)


def _describe_second(second: str, base: Prediction, other: Prediction) -> str:
    """The second limit of the step, where the first alone would suggest the wrong order."""
    faster = other.samples_per_s / other.gpu_count > base.samples_per_s / base.gpu_count
    ratio, share = _resource_ratio(second, base, other), other.bound_fractions[second]
    if (_resource_ratio(other.bound, base, other) > 1) == faster or (ratio > 1) != faster or share < _SHARE:
        return ""
    return f", but {ratio:.2f} times the {_RESOURCES[second]}, which limits {share:.0%} of the step"


def _describe_limit(bound: str, base: Prediction, other: Prediction) -> str:
    """What limits a step, and where that is a figure of the GPU, the other one's as a multiple of the base's."""
    return _LIMITS.get(bound) or f"by {bound} ({_resource_ratio(bound, base, other):.2f} times the {_RESOURCES[bound]})"


def _resource_ratio(bound: str, base: Prediction, other: Prediction) -> float:
    """How many times the bandwidth or arithmetic of the first GPU the other one has."""
    if bound == "memory":
        return other.gpu.memory_bytes_per_s / base.gpu.memory_bytes_per_s
    return (other.peak_flops_per_s or 1.0) / (base.peak_flops_per_s or 1.0)
