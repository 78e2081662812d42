"""Mixture-of-experts linear layers in a model that generates text: each token uses a few of many layers.

Times are predicted as in `linear.py`. The op's tensors do not include its weights, because the number of weights read depends on
the number of tokens.
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
