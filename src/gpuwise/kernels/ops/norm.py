"""Normalisation: layer, RMS and group norm along rows, batch norm over channels."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwise.kernels.limits import MEMORY_BOUND, class_columns
from gpuwise.kernels.types import Choices, Fusion, Measured, OpKind, Signature, Split, half_of, is_backward

__all__ = ["NORM"]


def _class_of(op: Signature, choices: Choices) -> str:
    if "batch_norm" in op.name and choices.mode == "infer":
        return "batch_norm_infer"  # one pass with known statistics
    last = choices.nhwc or op.attrs.get("layout") == "nhwc"
    if "group_norm" in op.name and last and not choices.lays_out and not is_backward(op):
        return "group_norm_nhwc"  # rearranged before and after; compiled kernels read any layout
    if "batch_norm" not in op.name and choices.lays_out and not is_backward(op):
        return "row_norm_compiled"  # a kernel made for this length of rows, which stay in registers
    return ("batch_norm" if "batch_norm" in op.name else "row_norm") + ("_backward" if is_backward(op) else "")


def _measured(op: Signature, size: Mapping[str, float]) -> Measured:
    return Measured((f"{'batch_norm' if 'batch_norm' in op.name else 'row_norm'}.{half_of(op)}",))


NORM = OpKind(
    name="norm",
    sizes=("rows", "columns"),
    model=MEMORY_BOUND,
    columns=class_columns(_class_of),
    measured=_measured,
    is_layer=True,
    fusion=Fusion.NORM,
    split=Split.FOLLOWS,
)
