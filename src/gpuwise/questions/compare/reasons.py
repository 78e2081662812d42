"""Why one GPU is faster than another on a job: what limits each, and how much of it the other has."""

from __future__ import annotations

from gpuwise.core.text import are, share_of, the
from gpuwise.questions.common.prediction_types import Prediction

__all__ = ["explain_ratio", "is_tie"]

_RESOURCES = {"memory": "bandwidth", "compute": "arithmetic throughput"}
_SHARE = 0.15  # of the step: a limit that takes less cannot explain a ratio
_MOSTLY = 0.75  # of the step: what limits this much hides all else
_MORE_USED = 1.25  # times the share of the bandwidth: less explains little
_LIMITS = {
    "launch": "by the host",
    "communication": "by the link between GPUs",
    "copy": "by copying inputs to the GPU",
    "input": "by the data loader",
}
_TIE = 1.03  # times as fast: less is no difference that anybody would notice
_MORE_TALK = 0.05  # of the step: a smaller difference in communication explains little
_MORE_CACHE, _LESS_CACHE = 1.5, 0.67  # times the cache: what lies between changes memory traffic little


def explain_ratio(base: Prediction, other: Prediction, ratio: float) -> str:
    """One clause on why `other` is faster or slower than `base`; `ratio` is how many times as fast its set is."""
    if not other.fits or not base.fits:
        short = other if not other.fits else base
        where = "either GPU" if not other.fits and not base.fits else the(short.gpu.name)
        return f"does not fit on {where} (needs {short.memory.total_bytes / 2**30:.1f} GiB)"
    if other.bound == "launch" and other.bound_fractions["launch"] >= _MOSTLY:
        return "limited by the host, so a faster GPU hardly helps"
    reason, ratios = _describe_limits(base, other)
    if not ratios or is_tie(ratio) or any((each > 1) == (ratio > 1) for each in ratios):
        return reason
    rest = _describe_set(base, other, ratio)
    link = "and" if all(map(_is_even, ratios)) else "but"
    return f"{reason}, {link} {rest}" if rest else f"limited by {other.bound}"


def _describe_rest(base: Prediction, other: Prediction) -> str:
    """Return why a step limited by memory gains less or more than the bandwidth suggests: the host limits a part of it, or
    this GPU's software uses another share of its bandwidth.
    """
    host, bandwidth = other.bound_fractions["launch"], _resource_ratio("memory", base, other)
    if other.bound == "memory" and host >= _SHARE and base.step_s / other.step_s < bandwidth:
        return f", but the host limits {host:.0%} of the step"
    if not other.bound == base.bound == "memory" or other.gpu_count != base.gpu_count or _cache_ratio(base, other) is not None:
        return ""
    taken = [told.bound_fractions["memory"] * told.step_s for told in (base, other)]
    used = taken[0] / taken[1] / bandwidth if taken[1] else 1.0
    return f" and uses {used:.1f} times as large a share of it" if used >= _MORE_USED else ""


def is_tie(ratio: float) -> bool:
    """Whether a ratio of speeds is so close to 1 that neither side can be called faster."""
    return 1 / _TIE < ratio < _TIE


def _describe_limits(base: Prediction, other: Prediction) -> tuple[str, list[float]]:
    """Return what limits both steps, with the ratios it states, one of which should point to the faster side."""
    rest = _describe_rest(base, other)
    if base.bound != other.bound:
        limits = [told.bound for told in (other, base) if told.bound not in _LIMITS]
        ratios = [_resource_ratio(bound, base, other) for bound in limits] if len(limits) == 2 else []
        return f"{_describe_own_limit(base, other)}{rest}; {_describe_base_limit(base, other)}", ratios
    if other.bound not in _RESOURCES:
        return f"limited {_LIMITS[other.bound]}", []
    resource = _RESOURCES[other.bound]
    ratio = _resource_ratio(other.bound, base, other)
    more, cache = "", _cache_ratio(base, other)
    if other.bound == "memory" and cache is not None:
        more = f" and {f'{cache:.2g} times' if cache >= 1 else f'{cache:.0%} of'} the cache"
    minor = "compute" if other.bound == "memory" else "memory"
    second = _describe_second(minor, base, other)
    has = f"{the(other.gpu.name)} has {share_of(ratio, f'the {resource}')}"
    reason = f"limited by {other.bound}; {has}{more} of {the(base.gpu.name)}{second}{rest}"
    if _is_even(ratio) and not more:
        both = "" if base.gpu.name == other.gpu.name else f", and both GPUs have the same {resource}"
        reason = f"limited by {other.bound}{both}{second}{rest}"
    return reason, [
        ratio,
        *([_resource_ratio(minor, base, other)] if second else []),
        *([cache] if more and cache is not None else []),
    ]


def _describe_set(base: Prediction, other: Prediction, ratio: float) -> str:
    """Return how the sets differ beyond their GPUs, if that points to the faster one: their number and their communication."""
    faster, found = ratio > 1, []
    if other.gpu_count != base.gpu_count and (other.gpu_count > base.gpu_count) == faster:
        found.append(f"{_describe_count(other)} {'is' if other.gpu_count == 1 else 'are'} compared with {_describe_count(base)}")
    own, others = (told.bound_fractions["communication"] for told in (other, base))
    if (own < others) == faster and abs(own - others) > _MORE_TALK:
        found.append(f"communication takes {own:.0%} of the step on {_describe_count(other)}, not {others:.0%}")
    return " and ".join(found)


def _describe_count(told: Prediction) -> str:
    return f"{told.gpu_count}x {told.gpu.name}" if told.gpu_count > 1 else f"one {told.gpu.name}"


def _cache_ratio(base: Prediction, other: Prediction) -> float | None:
    """Return the ratio of the other GPU's cache to the first one's; None if they differ little, or it is not known."""
    ratio = _cache_bytes(other) / (_cache_bytes(base) or float("inf"))
    return ratio if ratio >= _MORE_CACHE or 0 < ratio <= _LESS_CACHE else None


def _cache_bytes(result: Prediction) -> float:
    return (result.gpu.l2_bytes or 0.0) + (result.gpu.l3_bytes or 0.0)


def _describe_second(second: str, base: Prediction, other: Prediction) -> str:
    """Return the second limit of the step, if the first alone would suggest the wrong order."""
    faster = other.samples_per_s / other.gpu_count > base.samples_per_s / base.gpu_count
    ratio, share = _resource_ratio(second, base, other), other.bound_fractions[second]
    if (_resource_ratio(other.bound, base, other) > 1) == faster or (ratio > 1) != faster or share < _SHARE:
        return ""
    only = "only " if ratio < 1 else ""
    return f", but {only}{share_of(ratio, f'the {_RESOURCES[second]}')}, which limits {share:.0%} of the step"


def _describe_own_limit(base: Prediction, other: Prediction) -> str:
    """What limits the step of `other`, and how much of that it has relative to `base`."""
    who = _describe_count(other) if base.gpu.name == other.gpu.name else the(other.gpu.name)
    who = f"{who} {are(who)}"
    if other.bound in _LIMITS:
        return f"{who} limited {_LIMITS[other.bound]}"
    ratio, resource = _resource_ratio(other.bound, base, other), _RESOURCES[other.bound]
    if _is_even(ratio):
        return f"{who} limited by {other.bound}"
    return f"{who} limited by {other.bound} (it has {share_of(ratio, f'the {resource}')} of {the(base.gpu.name)})"


def _describe_base_limit(base: Prediction, other: Prediction) -> str:
    """What limits the step of `base`, and how much of that `other` has relative to it."""
    who = _describe_count(base) if base.gpu.name == other.gpu.name else the(base.gpu.name)
    who = f"{who} {are(who)}"
    if base.bound in _LIMITS:
        return f"{who} limited {_LIMITS[base.bound]}"
    ratio, resource = _resource_ratio(base.bound, base, other), _RESOURCES[base.bound]
    if _is_even(ratio):
        return f"{who} limited by {base.bound}"
    return f"{the(base.gpu.name)} is limited by {base.bound} ({the(other.gpu.name)} has {share_of(ratio, f'its {resource}')})"


def _is_even(ratio: float) -> bool:
    """Whether a ratio would be printed as 1.00 times, which explains nothing."""
    return f"{ratio:.2f}" == "1.00"


def _resource_ratio(bound: str, base: Prediction, other: Prediction) -> float:
    """How many times the bandwidth or arithmetic of the first GPU the other one has."""
    if bound == "memory":
        return other.gpu.memory_bytes_per_s / base.gpu.memory_bytes_per_s
    return (other.peak_flops_per_s or 1.0) / (base.peak_flops_per_s or 1.0)
