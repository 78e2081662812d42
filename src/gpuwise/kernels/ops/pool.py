"""Windows over images: pooling, and resizing or sampling from one grid to another.

A pool reads every value in its window. A resize reads few image values for each result, so its cost is the bytes moved. Gradients
that several results contribute to one value are added with atomics, as in a scatter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpuwise.kernels.limits import MEMORY_BOUND, class_columns
from gpuwise.kernels.types import Choices, Fusion, Measured, OpKind, Signature, Sizes, Split, half_of, is_backward

__all__ = ["POOL"]

_RESIZES = ("upsample_", "_upsample_", "im2col")
_SAMPLERS = ("grid_sampler", "torchvision::roi_align", "torchvision::_roi_align")  # read at positions given by another tensor


def _is_resize(op: Signature) -> bool:
    return op.name.startswith(_RESIZES + _SAMPLERS)


def _class_of(op: Signature, choices: Choices) -> str:
    backward = is_backward(op)
    if _is_resize(op):
        nearest = "nearest" in op.name or op.name == "im2col"
        return "copy" if not op.name.startswith(_SAMPLERS) and (nearest or not backward) else "index"
    return "pool_backward" if backward else "pool"


def _columns(ops: Sequence[Signature], size: Sizes, choices: Choices) -> Mapping[str, Any]:
    looked = np.where([_is_resize(op) for op in ops], 0.0, size["out_elements"] * size["window"])
    return {**_classes(ops, size, choices), "looked": looked}


_classes = class_columns(_class_of)

POOL = OpKind(
    name="pool",
    sizes=("in_elements", "out_elements", "window"),
    model=MEMORY_BOUND,
    columns=_columns,
    measured=lambda op, size: Measured((f"pool.{half_of(op)}",)),
    is_layer=True,
    fusion=Fusion.WINDOW,
    split=Split.FOLLOWS,
)
