"""Language models that nobody captured, from the sizes that papers print: a captured one with its numbers exchanged.

A captured step names its sizes as products of dimensions, and in the patterns used here every dimension has a value of its own
(768 is the width and nothing else), so another width, number of heads or vocabulary is an exchange of values. Blocks are repeated
as often as there are layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gpuwise.errors import BadValue
from gpuwise.scale.parts import Parts, parts_of
from gpuwise.workload import zoo
from gpuwise.workload.sources.request import Request
from gpuwise.workload.sources.settings import Settings
from gpuwise.workload.types import CATEGORIES, Workload

__all__ = ["LanguageModel", "language_parts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel:
    """What describes a decoder-only transformer. `inner` of 0 is four times the width; `kv_heads` of 0 is one for each head;
    `experts` of 0 is none. `gated`: SiLU with a gate, RMS norm and rotary positions, as in Llama; else as in GPT-2."""

    hidden: int
    heads: int
    layers: int
    vocabulary: int
    kv_heads: int = 0
    inner: int = 0
    head_dim: int = 0
    gated: bool = False
    positions: int = 0


# zoo model, and which of its dimensions is which
_GPT = ("gpt2", {768: "hidden", 2304: "three", 12: "heads", 64: "head_dim", 3072: "inner", 50257: "vocabulary", 1024: "positions"})
_LLAMA = (
    "llama-3-70b",
    {8192: "hidden", 64: "heads", 8: "kv_heads", 128: "head_dim", 1024: "keys", 28672: "inner", 128256: "vocabulary"},
)


def language_parts(model: LanguageModel, *, precision: str = "bf16", optimizer: str = "adamw") -> Parts:
    """The parts of a training step of this model."""
    name, names = _LLAMA if model.gated else _GPT
    settings = Settings(mode="train", precision=precision, optimizer=optimizer)
    workload = zoo.load(name, Request(model=name, settings=settings))
    values = {old: float(_sizes(model)[what]) for old, what in names.items()}
    return _repeated(parts_of(_exchanged(workload, values)), model.layers)


def _sizes(model: LanguageModel) -> dict[str, int]:
    if model.hidden % model.heads and not model.head_dim:
        raise BadValue(f"a width of {model.hidden} has no {model.heads} equal heads", hint="give `head_dim`")
    head = model.head_dim or model.hidden // model.heads
    kv_heads = model.kv_heads or model.heads
    return {
        "hidden": model.hidden,
        "heads": model.heads,
        "kv_heads": kv_heads,
        "head_dim": head,
        "keys": kv_heads * head,
        "three": 3 * model.hidden,
        "inner": model.inner or 4 * model.hidden,
        "vocabulary": model.vocabulary,
        "positions": model.positions or 1,
    }


def _exchanged(workload: Workload, values: Mapping[int, float]) -> Workload:
    dims = workload.dims.copy()
    fixed = (dims[:, 1:] == 0).all(axis=1)
    for row in np.flatnonzero(fixed).tolist():
        dims[row, 0] = values.get(int(dims[row, 0]), dims[row, 0])
    changed = replace(workload, dims=dims, source="sizes")
    weights = changed.buffers.tensor[changed.buffers.category == CATEGORIES.index("weight")]
    count = sum(float(np.prod(dims[list(changed.products[changed.tensors[row].elements]), 0])) for row in weights.tolist())
    return replace(changed, parameters=int(count))


def _repeated(parts: Parts, layers: int) -> Parts:
    """As many blocks as the model has layers; those that differ from most keep their places at the ends."""
    usual = Counter(parts.kinds).most_common(1)[0][0]
    start, end = parts.kinds.index(usual), len(parts.kinds) - parts.kinds[::-1].index(usual)
    ends = len(parts.kinds) - (end - start)
    kinds = (*parts.kinds[:start], *(usual,) * (layers - ends), *parts.kinds[end:])
    return replace(parts, kinds=kinds, blocks=tuple(f"block {number}" for number in range(layers)))
