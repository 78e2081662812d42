"""Table look-ups by row, and their gradients, which are added to the rows of a table."""

from __future__ import annotations

from gpuwise.kernels.limits import MEMORY_BOUND, class_columns
from gpuwise.kernels.types import Fusion, Measured, OpKind, Split, half_of

__all__ = ["EMBEDDING"]

EMBEDDING = OpKind(
    name="embedding",
    sizes=("rows", "width", "table_rows"),
    model=MEMORY_BOUND,
    columns=class_columns("embedding", backward="embedding_backward"),
    measured=lambda op, size: Measured((f"embedding.{half_of(op)}",)),
    is_layer=True,
    fusion=Fusion.TABLE,
    split=Split.TABLE,
)
