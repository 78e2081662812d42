"""How much of a workload is understood: the share of calls, FLOPs and bytes from known kinds of ops, and the names of the
rest.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gpuwise.workload.model.evaluate import call_counts, op_bytes, op_flops, product_values
from gpuwise.workload.model.types import Workload

__all__ = ["Coverage", "coverage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Shares in 0..1. `unknown` are ops whose time is estimated from their bytes only, with their number of calls."""

    calls_fraction: float
    flops_fraction: float
    bytes_fraction: float
    unknown: dict[str, int]


def coverage(workload: Workload) -> Coverage:
    """Return the share of the step, at its own size, that consists of ops of a known kind."""
    values = product_values(workload)
    counts = call_counts(workload).sum(axis=0)
    read, written = op_bytes(workload, values)
    moved, flops = counts * (read + written)[0], counts * op_flops(workload, values)[0]
    known = [op.kind != "other" for op in workload.ops]
    unknown: Counter[str] = Counter()
    for op, count in zip(workload.ops, counts.tolist(), strict=True):
        if op.kind == "other" and count:
            unknown[op.name] += int(count)
    return Coverage(
        calls_fraction=_share(float(counts[known].sum()), float(counts.sum())),
        flops_fraction=_share(float(flops[known].sum()), float(flops.sum())),
        bytes_fraction=_share(float(moved[known].sum()), float(moved.sum())),
        unknown=dict(unknown.most_common()),
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 1.0
