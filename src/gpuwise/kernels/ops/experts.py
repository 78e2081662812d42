"""A linear layer of which there are many, for each token to take a few: a mixture of experts in a model that generates text.

Priced as `linear.py` says. The op's tensors leave its weights out: how many are read depends on how many tokens there are.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuwise.kernels.ops.linear import LINEAR, held_columns
from gpuwise.kernels.types import Array, Fusion, Measured, OpKind, Signature, Sizes, Split

__all__ = ["EXPERTS"]


def _flops(op: Signature, size: Sizes) -> Array:
    result: Array = 2 * size["tokens"] * size["chosen"] * size["n"] * size["k"]
    return result


def _measured(op: Signature, size: Mapping[str, float]) -> Measured:
    rows = size["tokens"] * size["chosen"] / size["experts"]
    return Measured((f"matmul.{op.dtype}", "matmul.fp32"), (size["experts"], rows, size["n"], size["k"]))


EXPERTS = OpKind(
    name="experts",
    sizes=("tokens", "experts", "chosen", "n", "k"),
    attrs=("weights",),
    model=LINEAR.model,
    columns=held_columns,
    flops=_flops,
    measured=_measured,
    is_layer=True,
    is_product=True,
    fusion=Fusion.PRODUCT,
    split=Split.WHOLE,
)
