"""Turns samples of one GPU into the values that live checks read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from statistics import mean, median

from gpuwise.core.errors import UnknownName
from gpuwise.diagnose.vitals import GpuVitals
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.live.sample.types import GpuSample

__all__ = ["catalogue_gpu", "gpu_vitals"]

_AT_LOAD = 0.5


def catalogue_gpu(name: str, memory_bytes: float | None) -> Gpu | None:
    """Return the product for a driver's name; if there are several, the one with the observed memory."""
    try:
        match = load_catalog().find(name)
    except UnknownName:
        return None
    if memory_bytes is None:
        return match.gpu
    return min((match.gpu, *match.others), key=lambda gpu: abs(gpu.memory_bytes - memory_bytes))


def gpu_vitals(samples: tuple[GpuSample, ...], ours: frozenset[int] = frozenset()) -> GpuVitals:
    """Return the values for one GPU; `ours` are the processes of the run itself."""
    load = tuple(one for one in samples if (one.busy_fraction or 0.0) >= _AT_LOAD)
    looked = load or samples
    last = samples[-1]
    found = catalogue_gpu(last.name, last.memory_bytes) if last.name else None
    clock_max = _last(samples, lambda one: one.clock_max_hz)
    others = _others(samples, ours)
    return GpuVitals(
        name=found.name if found else last.name or f"GPU {last.index}",
        sample_count=len(samples),
        load_count=len(load),
        busy_fraction=_mean(one.busy_fraction for one in samples),
        memory_busy_fraction=_mean(one.memory_busy_fraction for one in samples),
        clock_hz=_mean(one.clock_hz for one in looked),
        boost_hz=min(filter(None, (found.boost_clock_hz if found else None, clock_max)), default=None),
        reasons=_reasons(load),
        power_watts=_mean(one.power_watts for one in looked),
        power_limit_watts=_last(samples, lambda one: one.power_limit_watts),
        power_default_watts=_last(samples, lambda one: one.power_default_watts),
        temperature_c=max((one.temperature_c for one in samples if one.temperature_c is not None), default=None),
        pcie_generation=_most(one.pcie_generation for one in looked),
        pcie_generation_max=_most(one.pcie_generation_max for one in looked),
        pcie_lanes=_most(one.pcie_lanes for one in looked),
        pcie_lanes_max=_most(one.pcie_lanes_max for one in looked),
        traffic_bytes_per_s=_mean(_traffic(one) for one in looked),
        memory_used_fraction=max((share for one in samples if (share := _used(one)) is not None), default=None),
        other_processes=others[0],
        other_busy_fraction=others[1],
        other_memory_bytes=others[2],
    )


def _others(samples: tuple[GpuSample, ...], ours: frozenset[int]) -> tuple[int | None, float, float]:
    """Return how many other processes there were at once, how busy they kept the GPU and what they held. Nothing is reported
    if the driver lists none of ours: in a container, its process numbers differ from ours.
    """
    lists = [one.processes for one in samples if one.processes is not None]
    if not any(process.pid in ours for processes in lists for process in processes):
        return None, 0.0, 0.0
    foreign = [[process for process in processes if process.pid not in ours] for processes in lists]
    busy = mean(sum(process.busy_fraction or 0.0 for process in found) for found in foreign)
    held = median(sum(process.memory_bytes or 0.0 for process in found) for found in foreign)
    return max(len(found) for found in foreign), min(busy, 1.0), held


def _reasons(load: tuple[GpuSample, ...]) -> dict[str, float] | None:
    told = [one.reasons for one in load if one.reasons is not None]
    if not told:
        return None
    counts = Counter(reason for reasons in told for reason in reasons)
    return {reason: count / len(told) for reason, count in counts.items()}


def _traffic(sample: GpuSample) -> float | None:
    ways = [way for way in (sample.received_bytes_per_s, sample.sent_bytes_per_s) if way is not None]
    return max(ways) if ways else None


def _used(sample: GpuSample) -> float | None:
    if sample.memory_used_bytes is None or not sample.memory_bytes:
        return None
    return sample.memory_used_bytes / sample.memory_bytes


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def _most(values: Iterable[int | None]) -> int | None:
    """Return the most frequent value."""
    counts = Counter(value for value in values if value is not None)
    return counts.most_common(1)[0][0] if counts else None


def _last(samples: tuple[GpuSample, ...], field: Callable[[GpuSample], float | None]) -> float | None:
    return next((value for one in reversed(samples) if (value := field(one)) is not None), None)
