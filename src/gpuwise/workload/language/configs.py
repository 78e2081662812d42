"""Reads the sizes of a decoder from its Hugging Face config.json. No framework is needed, and nothing in the file is trusted.

`families.py` describes the layers of each model type. Models for images and text nest the decoder under `text_config`; only the
decoder is described.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from gpuwise.core.errors import BadValue
from gpuwise.workload.language.families import TYPES
from gpuwise.workload.language.reading import Reader, checked, shown
from gpuwise.workload.language.shape import LanguageShape

__all__ = ["model_types", "shape_of_config"]

_ENCODERS = frozenset(
    "albert bert camembert deberta deberta-v2 distilbert electra esm ernie funnel longformer modernbert mobilebert mpnet "
    "nomic_bert roberta squeezebert vit xlm-roberta wav2vec2".split()
)
_BOTH = frozenset("bart mbart t5 mt5 umt5 pegasus whisper marian m2m_100 blenderbot led prophetnet".split())
_RECURRENT = frozenset(
    "bamba falcon_h1 falcon_mamba granitemoehybrid jamba lfm2 lfm2_moe mamba mamba2 minimax nemotron_h qwen3_next qwen3_5 "
    "qwen3_5_moe recurrent_gemma rwkv xlstm zamba zamba2".split()
)


def shape_of_config(name: str, config: Mapping[str, Any]) -> LanguageShape:
    """Return the sizes of the decoder that this configuration describes."""
    read = Reader(config, f"the configuration of {name[:80]}")
    kind = read.word("model_type")
    if "text_config" in config and kind not in TYPES:
        inner = read.inner("text_config")
        outer = {key: config[key] for key in ("tie_word_embeddings",) if key in config}
        read = Reader({**outer, **inner.values}, inner.where)
        kind = read.word("model_type") or f"{kind}_text"
    describe = TYPES.get(kind)
    if describe is None:
        raise _refused(kind, read)
    return checked(LanguageShape(name=name, **describe(read)), read.where)


def model_types() -> tuple[str, ...]:
    """Return the supported values of `model_type`."""
    return tuple(sorted(TYPES))


def _refused(kind: str, read: Reader) -> BadValue:
    known = f"{len(TYPES)} decoder types: {', '.join(model_types())}"
    if not kind:
        return BadValue(f"{read.where} has no 'model_type'", known=known, hint='add a line such as `"model_type": "llama"`')
    if kind in _ENCODERS:
        return BadValue(
            f"{read.where} describes a '{kind}' model, which is an encoder and does not generate text",
            hint="predict it like any other model, with `hf:NAME` or the path to its config.json",
        )
    if kind in _BOTH:
        return BadValue(
            f"{read.where} describes a '{kind}' model, which has an encoder in addition to its decoder",
            hint="predict it like any other model, with `hf:NAME` or the path to its config.json",
        )
    if kind in _RECURRENT:
        return BadValue(
            f"{read.where} describes a '{kind}' model, in which some layers keep a fixed-size state instead of using attention",
            known=known,
            hint="choose a model with attention layers only, because gpuwise does not support this kind yet",
        )
    near = difflib.get_close_matches(kind, TYPES, n=1)
    meant = f"did you mean `{near[0]}`? Otherwise, " if near else ""
    return BadValue(
        f"{read.where} has the unknown model type {shown(kind)}",
        known=known,
        hint=f"{meant}set `model_type` to a type with the same layers, such as `llama`",
    )
