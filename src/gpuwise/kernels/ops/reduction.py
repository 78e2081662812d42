"""Sums, means and maxima over many elements."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwise.kernels.limits import MEMORY_BOUND, class_columns
from gpuwise.kernels.types import Fusion, Measured, OpKind, Signature, Split

__all__ = ["REDUCTION"]


def _measured(op: Signature, size: Mapping[str, float]) -> Measured:
    return Measured(("columns" if 1.0 < size["out_elements"] < size["in_elements"] else "reduction",))


REDUCTION = OpKind(
    name="reduction",
    sizes=("in_elements", "out_elements"),
    model=MEMORY_BOUND,
    columns=class_columns("reduction", compiled="reduction_compiled"),
    measured=_measured,
    fusion=Fusion.REDUCTION,
    split=Split.FOLLOWS,
)
