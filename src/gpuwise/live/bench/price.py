"""Computes the time of a step on a measured device: every op's time comes from the nearest measured rows.

Nothing is fitted or assumed about the device: rates between measured sizes are interpolated on logarithmic scales, and anything
smaller than the smallest measured size takes the same time as that one. The framework's own time per call comes from a chain of
small layers. Ops run one after another, as on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuwise.core.errors import BadFile
from gpuwise.kernels.registry import KINDS
from gpuwise.live.bench.types import Profile, Row
from gpuwise.workload.model.evaluate import call_counts, op_bytes, op_flops, product_values
from gpuwise.workload.model.types import Op, Workload

__all__ = ["NEEDED", "Priced", "price"]

NEEDED = ("chain.forward", "chain.step", "matmul.fp32", "elementwise", "columns")  # the framework takes part in every step

_NEAR = 0.05  # of a doubling; a measured size this close counts as the same


class Priced:
    """Seconds of a step by phase and by kind of op; `spread_fraction` is that of the rows used, weighted by their seconds in
    the step, as if all errors had the same sign.
    """

    def __init__(self, seconds: float, overhead_s: float, by_kind: dict[str, float], spread_fraction: float) -> None:
        self.seconds, self.overhead_s, self.by_kind, self.spread_fraction = seconds, overhead_s, by_kind, spread_fraction


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
    whole = sum(by_kind.values()) + overhead
    return Priced(whole, overhead, by_kind, (unsure_s + overhead * spread) / whole if whole > 0 else 0.0)


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
    """Return seconds from the rates of measured sizes, weighting nearer ones more, on a scale of doublings."""
    rows = _measured(rows, len(sizes))
    known = np.log2(np.maximum([row.sizes for row in rows], 1.0))
    rates = np.log([row.work / row.seconds for row in rows])
    distance = np.abs(known - np.log2(np.maximum(sizes, 1.0))).sum(axis=1)
    weight = 1.0 / np.maximum(distance, _NEAR) ** 2
    seconds = work / float(np.exp((weight * rates).sum() / weight.sum()))
    least = min(row.seconds for row in rows if row.work == min(other.work for other in rows)) if work < rows[0].work else 0.0
    return max(seconds, least), float((weight * [row.spread_fraction for row in rows]).sum() / weight.sum())


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
    """Return a cost per tensor and one per element, from measured optimizers with many small and with a few large tensors."""
    ops = [op for op in workload.ops if op.kind == "optimizer"]
    if not ops:
        return 0.0, 0.0
    elements = max(float(values[op.sizes[0]]) for op in ops)
    tensors = max(float(values[op.sizes[1]]) for op in ops)
    rows = _measured(profile.of(f"optimizer.{workload.optimizer}") or profile.of("optimizer.adamw"), 2)
    many, large = sorted(rows, key=lambda row: row.work)[0], sorted(rows, key=lambda row: row.work)[-1]
    matrix = np.array([many.sizes, large.sizes])
    per_tensor, per_element = np.maximum(np.linalg.lstsq(matrix, np.array([many.seconds, large.seconds]), rcond=None)[0], 0.0)
    return float(tensors * per_tensor + elements * per_element), max(many.spread_fraction, large.spread_fraction)


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
