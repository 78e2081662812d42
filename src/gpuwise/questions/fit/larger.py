"""GPUs that could be used in place of one that is too small."""

from __future__ import annotations

from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu

__all__ = ["larger_than"]


def larger_than(gpu: Gpu) -> list[Gpu]:
    """Return curated GPUs from the same maker and segment with more memory."""
    if gpu.is_cpu:
        return []
    portable = gpu.segment == "laptop"
    return [
        other
        for other in load_catalog().curated
        if other.vendor == gpu.vendor and other.memory_bytes > gpu.memory_bytes and (other.segment == "laptop") == portable
    ]
