"""Computes the time of a step on a measured device: every op's time comes from the nearest measured rows.

Nothing is assumed about the device. The times of products follow the trend of measured ones (`trend.py`). Other times are
interpolated by bytes on logarithmic scales, and anything smaller than the smallest measured size takes the same time as that
one. The framework's own time per call comes from a chain of small layers. Memory that the C library returned to the system and
requests again takes extra time, at a measured rate. Ops run one after another, as on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuwise.core.errors import BadFile
from gpuwise.kernels.registry import KINDS
from gpuwise.live.bench.trend import trend_of
from gpuwise.live.bench.types import Profile, Row
from gpuwise.step.memory.heap import fresh_bytes
from gpuwise.workload.model.evaluate import call_counts, op_bytes, op_flops, product_values
from gpuwise.workload.model.types import Op, Workload

__all__ = ["NEEDED", "Priced", "price"]

NEEDED = ("chain.forward", "chain.step", "matmul.fp32", "elementwise", "columns")  # the framework takes part in every step


class Priced:
    """Seconds of a step by kind of op, for the framework, and for memory that is fresh from the system. `spread_fraction` is that
    of the rows used, weighted by their seconds in the step, as if all errors had the same sign.
    """

    def __init__(self, *, overhead_s: float, fresh_s: float, by_kind: dict[str, float], unsure_s: float) -> None:
        self.seconds = sum(by_kind.values()) + overhead_s + fresh_s
        self.overhead_s, self.fresh_s, self.by_kind = overhead_s, fresh_s, by_kind
        self.spread_fraction = unsure_s / self.seconds if self.seconds > 0 else 0.0


def price(workload: Workload, profile: Profile, batch: float | None = None, seq: float | None = None) -> Priced:
    """Return one step of this workload on the device of this profile."""
    values = product_values(workload, None if batch is None else np.array([batch]), None if seq is None else np.array([seq]))
    flops = op_flops(workload, values)[0]
    read, written = op_bytes(workload, values)
    moved = (read + written)[0]
    counts = call_counts(workload)
    by_kind: dict[str, float] = {}
    unsure_s = 0.0
    for place, op in enumerate(workload.ops):
        if op.kind == "optimizer":
            continue
        sizes = dict(zip(KINDS[op.kind].sizes, (float(values[0][size]) for size in op.sizes), strict=False))
        each, spread = _op_s(op, sizes, float(flops[place]), float(moved[place]), profile)
        all_s = each * float(counts[:, place].sum())
        by_kind[op.kind] = by_kind.get(op.kind, 0.0) + all_s
        unsure_s += all_s * spread
    by_kind["optimizer"], spread = _optimizer_s(workload, values[0], profile)
    unsure_s += by_kind["optimizer"] * spread
    overhead, spread = _overhead_s(workload, counts, profile)
    unsure_s += overhead * spread
    per_byte = _fresh_s_per_byte(profile)
    fresh = per_byte * fresh_bytes(workload, batch, seq) if per_byte else 0.0
    return Priced(overhead_s=overhead, fresh_s=fresh, by_kind=by_kind, unsure_s=unsure_s)


def _fresh_s_per_byte(profile: Profile) -> float:
    """Return the seconds that memory fresh from the system takes beyond other memory; 0 if the C library's rules are unknown."""
    known, fresh = profile.of("write.known"), profile.of("write.fresh")
    return max(fresh[0].seconds / fresh[0].work - known[0].seconds / known[0].work, 0.0) if known and fresh else 0.0


def _op_s(op: Op, sizes: dict[str, float], flops: float, moved: float, profile: Profile) -> tuple[float, float]:
    """Return the seconds of one call, and the spread of the rows they come from."""
    measured = KINDS[op.kind].measured(op, sizes)
    rows = next((rows for kind in measured.kinds if (rows := profile.of(kind))), ())
    return _by_rate(rows, measured.sizes, flops) if measured.sizes else _by_bytes(rows, moved)


def _measured(rows: Sequence[Row], size_count: int | None = None) -> list[Row]:
    """Return the rows with this many sizes; a profile without one cannot predict such work."""
    found = [row for row in rows if size_count in (None, len(row.sizes))]
    if not found:
        raise BadFile(
            "the profile of this machine does not cover this model",
            hint="run `gpuwise bench` again, with a larger `--seconds` if it ran out of time",
        )
    return found


def _by_rate(rows: Sequence[Row], sizes: tuple[float, ...], work: float) -> tuple[float, float]:
    """Return seconds from the trend of measured sizes."""
    return trend_of(tuple(_measured(rows, len(sizes)))).seconds(sizes, work)


def _by_bytes(rows: Sequence[Row], moved: float) -> tuple[float, float]:
    """Return seconds interpolated by bytes; proportional beyond the largest, and constant below the smallest."""
    ordered = sorted(_measured(rows), key=lambda row: row.work)
    last = ordered[-1]
    if moved >= last.work:
        return last.seconds * moved / last.work, last.spread_fraction
    works, seconds = np.log([row.work for row in ordered]), np.log([row.seconds for row in ordered])
    place = np.log(max(moved, 1.0))
    spread = np.interp(place, works, [row.spread_fraction for row in ordered])
    return float(np.exp(np.interp(place, works, seconds))), float(spread)


def _optimizer_s(
    workload: Workload, values: np.ndarray[tuple[int], np.dtype[np.float64]], profile: Profile
) -> tuple[float, float]:
    """Return a cost per step, one per tensor and one per element, from measured optimizers with few and many, small and large
    tensors.
    """
    ops = [op for op in workload.ops if op.kind == "optimizer"]
    if not ops:
        return 0.0, 0.0
    elements = max(float(values[op.sizes[0]]) for op in ops)
    tensors = max(float(values[op.sizes[1]]) for op in ops)
    rows = _measured(profile.of(f"optimizer.{workload.optimizer}") or profile.of("optimizer.adamw"), 2)
    matrix = np.array([[1.0, *row.sizes] for row in rows])
    seconds = np.array([row.seconds for row in rows])
    weighted = np.linalg.lstsq(matrix / seconds[:, None], np.ones(len(rows)), rcond=None)[0]
    found = float(np.array([1.0, tensors, elements]) @ np.maximum(weighted, 0.0))
    return found, max(row.spread_fraction for row in rows)


def _overhead_s(
    workload: Workload, counts: np.ndarray[tuple[int, int], np.dtype[np.float64]], profile: Profile
) -> tuple[float, float]:
    """Return the framework's time besides its ops: a fixed amount per layer forward, and per op backward."""
    forward, both = (_measured(profile.of(kind), 2)[0] for kind in ("chain.forward", "chain.step"))
    small, _ = _by_rate(profile.of("matmul.fp32"), (1, 16, 16, 16), 8192.0)
    light, column = (_by_bytes(profile.of(kind), size)[0] for kind, size in (("elementwise", 2048.0), ("columns", 1024.0)))
    pairs = forward.sizes[0]
    per_layer = max(forward.seconds - pairs * (small + light), 0.0) / (2 * pairs)
    backward = both.seconds - forward.seconds
    per_backward = max(backward - pairs * (2 * small + light + column), 0.0) / (4 * pairs)
    layers = np.array([KINDS[op.kind].is_layer for op in workload.ops])
    light_calls = counts[0][~layers].sum()
    seconds = float(per_layer * (counts[0][layers].sum() + 0.5 * light_calls) + per_backward * counts[1].sum())
    return seconds, max(forward.spread_fraction, both.spread_fraction)
