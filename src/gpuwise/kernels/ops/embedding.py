"""Look-ups of rows in a table, and their gradients, which are added to rows of a table."""

from __future__ import annotations

from gpuwise.kernels.kinds import Fusion, Measured, OpKind, Split, half_of, is_backward
from gpuwise.kernels.memory_bound import MEMORY_BOUND, class_columns

__all__ = ["EMBEDDING"]

EMBEDDING = OpKind(
    name="embedding",
    sizes=("rows", "width", "table_rows"),
    model=MEMORY_BOUND,
    columns=class_columns(lambda op, choices: "embedding_backward" if is_backward(op) else "embedding"),
    measured=lambda op, size: Measured((f"embedding.{half_of(op)}",)),
    is_layer=True,
    fusion=Fusion.TABLE,
    split=Split.TABLE,
)
