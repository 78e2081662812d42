"""Decides whether one GPU beats another of its architecture in every published value, so that no step can be slower on it."""

from __future__ import annotations

from gpuwise.hardware.types import Gpu

__all__ = ["is_better"]


def is_better(gpu: Gpu, other: Gpu) -> bool:
    """Return whether `gpu` is at least as good as `other` in every published value and better in one, with the same architecture.

    The comparison covers compute rates, bandwidth, caches, memory and power; power counts because a higher rate may be out of
    reach at a lower limit. If a value is published for only one of the two, the order is unknown, so the result is false.

    >>> from gpuwise.hardware.catalog import load_catalog
    >>> small, large = (load_catalog().find(name).gpu for name in ("H100 SXM 80GB", "H200"))
    >>> is_better(large, small), is_better(small, large), is_better(small, small)
    (True, False, False)
    """
    if gpu.architecture.id != other.architecture.id or gpu.is_cpu:
        return False
    pairs = list(zip(_figures(gpu), _figures(other), strict=True))
    rates = [(_rate(gpu, engine, dtype), _rate(other, engine, dtype)) for engine, dtype in _kinds(gpu, other)]
    known = [*pairs, *rates]
    if any((own is None) != (others is None) for own, others in known):
        return False
    found = [(own, others) for own, others in known if own is not None and others is not None]
    return all(own >= others for own, others in found) and any(own > others for own, others in found)


def _figures(gpu: Gpu) -> tuple[float | None, ...]:
    return (gpu.memory_bytes_per_s, gpu.usable_memory_bytes, gpu.l2_bytes, gpu.l3_bytes, gpu.tdp_watts, gpu.pcie_generation)


def _kinds(gpu: Gpu, other: Gpu) -> set[tuple[str, str]]:
    return {(engine, dtype) for one in (gpu, other) for engine, rates in one.peak_flops_per_s.items() for dtype in rates}


def _rate(gpu: Gpu, engine: str, dtype: str) -> float | None:
    return gpu.peak_flops_per_s.get(engine, {}).get(dtype)
