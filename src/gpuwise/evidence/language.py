"""Builds language models that were not captured from the sizes in papers, by substituting the sizes in a captured pattern.

A captured step expresses its sizes as products of dimensions. In the patterns (`tools/build_patterns.py`), every dimension has a
unique value: 1536 is the width and nothing else. Another width, number of heads or vocabulary is therefore a substitution of
values, and blocks are repeated once per layer. No framework is needed.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import numpy as np

from gpuwise.core.errors import BadValue
from gpuwise.workload.compile.fuse import fused
from gpuwise.workload.model.types import CATEGORIES, Workload
from gpuwise.workload.store.files import decode
from gpuwise.workload.transform.parts import Parts, parts_of

__all__ = ["LanguageModel", "language_parts", "repeated"]

_GPT = {768: "hidden", 2304: "three", 12: "heads", 64: "head_dim", 3072: "inner", 50021: "vocabulary", 1000: "positions"}
_GATED = {
    1536: "hidden",
    24: "heads",
    6: "kv_heads",
    80: "head_dim",
    40: "half",
    1920: "queries",
    480: "keys",
    4160: "inner",
    8320: "gate",
    50021: "vocabulary",
    10: "experts",
    3: "chosen",
}
_EXPERTS, _CHOSEN = 10, 3  # the numbers in the captured pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel:
    """The description of a decoder-only transformer. An `inner` of 0 means four times the width, and a `kv_heads` of 0 means one
    per head. `gated`: gated SiLU, RMS norm and rotary positions, as in Llama; otherwise as in GPT-2, with or without its
    `dropout`. With `experts`, `chosen` of them process each token, and each is as wide as `inner`.
    """

    hidden: int
    heads: int
    layers: int
    vocabulary: int
    kv_heads: int = 0
    inner: int = 0
    head_dim: int = 0
    gated: bool = False
    positions: int = 0
    experts: int = 0
    chosen: int = 0
    dropout: bool = True


def language_parts(model: LanguageModel, *, compiled: bool = False) -> Parts:
    """Return the parts of a training step of this model in bf16 with AdamW; `compiled` fuses kernels as torch.compile would."""
    name = "experts" if model.experts else "llama" if model.gated else "gpt" if model.dropout else "gpt_plain"
    names = _GATED if model.gated or model.experts else _GPT
    sizes = _sizes(model)
    values = {old: float(sizes[what]) for old, what in names.items()}
    return repeated(parts_of(_exchanged(_pattern(name, compiled), values, model)), model.layers)


@cache
def _pattern(name: str, compiled: bool) -> Workload:
    data = (files("gpuwise.scale") / "data" / f"pattern_{name}.json.gz").read_bytes()
    workload = decode(gzip.decompress(data), f"the {name} pattern")
    return fused(workload, optimizer=False) if compiled else workload


def _sizes(model: LanguageModel) -> dict[str, int]:
    if model.hidden % model.heads and not model.head_dim:
        raise BadValue(
            f"a width of {model.hidden} cannot be divided into {model.heads} equal heads", hint="set the width of a head"
        )
    head = model.head_dim or model.hidden // model.heads
    kv_heads, inner = model.kv_heads or model.heads, model.inner or 4 * model.hidden
    return {
        "hidden": model.hidden,
        "heads": model.heads,
        "kv_heads": kv_heads,
        "head_dim": head,
        "half": head // 2,
        "queries": model.heads * head,
        "keys": kv_heads * head,
        "three": 3 * model.hidden,
        "inner": inner,
        "gate": 2 * inner,
        "vocabulary": model.vocabulary,
        "positions": model.positions or 1,
        "experts": model.experts or 1,
        "chosen": model.chosen or 1,
    }


def _exchanged(workload: Workload, values: Mapping[int, float], model: LanguageModel) -> Workload:
    dims = workload.dims.copy()
    fixed = (dims[:, 1:] == 0).all(axis=1)
    for row in np.flatnonzero(fixed).tolist():
        dims[row, 0] = values.get(int(dims[row, 0]), dims[row, 0])
    if model.experts:
        dims[~fixed] = [_routed(row, model) for row in dims[~fixed].tolist()]
    changed = replace(workload, dims=dims)
    weights = changed.buffers.tensor[changed.buffers.category == CATEGORIES.index("weight")]
    count = sum(float(np.prod(dims[list(changed.products[changed.tensors[row].elements]), 0])) for row in weights.tolist())
    return replace(changed, parameters=int(count))


def _routed(row: list[float], model: LanguageModel) -> list[float]:
    """Return tokens times the experts chosen, or that divided by the number of experts."""
    share = {_CHOSEN: model.chosen, round(_CHOSEN / _EXPERTS, 6): model.chosen / model.experts}
    return [row[0], *(share.get(round(value, 6), value) for value in row[1:])]


def repeated(parts: Parts, layers: int) -> Parts:
    """Repeat the block once per layer; blocks that differ from the middle one keep their places at the ends."""
    usual = parts.kinds[len(parts.kinds) // 2]
    start, end = parts.kinds.index(usual), len(parts.kinds) - parts.kinds[::-1].index(usual)
    ends = len(parts.kinds) - (end - start)
    if layers < ends + 1:
        raise BadValue(f"{layers} layers are too few for this pattern", hint=f"use at least {ends + 1}")
    kinds = (*parts.kinds[:start], *(usual,) * (layers - ends), *parts.kinds[end:])
    return replace(parts, kinds=kinds, blocks=tuple(f"block {number}" for number in range(layers)))
