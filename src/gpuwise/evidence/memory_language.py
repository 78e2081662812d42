"""Rows about the memory of language models: turns a model's name and a method in words into its shape and the bytes it needs.

`data/language_models.json` holds shapes and how LitGPT's recipes place LoRA, with their sources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

from gpuwise.step.memory.language import Adaptation, DecoderShape, adaptation_memory, generation_memory, shape_from_config
from gpuwise.workload.capture.huggingface import configs as huggingface_configs
from gpuwise.workload.capture.huggingface.known import table

__all__ = ["LanguageModel", "causal_masks_bytes", "counted_bytes", "language_models"]

_WEIGHTS = {
    "bf16": "bf16",
    "fp16": "bf16",
    "bf16-true": "bf16",
    "bf16-mixed": "mixed",
    "bf16 weights nf4": "nf4",
    "bf16 weights nf4-dq": "nf4-dq",
}
_SPLITS = {"layers split over devices": "layers", "tensor parallel": "tensor"}
_METHODS = {"lora": "lora", "qlora": "lora", "full": "full", "adapter": "adapter", "adapter_v2": "adapter_v2"}
_GPT_NEOX_POSITIONS = 2048
_PROMPT_SCORE = 6  # bytes per score: in 16 bits, and in fp32 where the token is chosen
_GENERATED = 300  # tokens in the cache for a short prompt and its answer
_RECIPES_ON = "A10G"  # where LitGPT's recipes were run, on one GPU even if the machine has four


class LanguageModel(msgspec.Struct, frozen=True):
    """A model and the names that its sources use. `lora_rank` and `lora_everywhere` are from LitGPT's recipe for it."""

    repo: str
    aliases: tuple[str, ...]
    shape: DecoderShape
    lora_rank: int = 8
    lora_everywhere: bool = False


class _File(msgspec.Struct):
    shapes_source: str
    models: tuple[LanguageModel, ...]
    alpaca_tokens: dict[str, int]
    alpaca_source: str


@cache
def _file() -> _File:
    return msgspec.json.decode((files("gpuwise.evidence") / "data" / "language_models.json").read_bytes(), type=_File)


def language_models() -> tuple[LanguageModel, ...]:
    """Return every model with a known shape."""
    return _file().models


def counted_bytes(cells: Mapping[str, str]) -> float | str:
    """Return the allocated peak for a row of LitGPT's tables or a row about generation, or why it cannot be computed."""
    model, shape = _model(cells["model"])
    weights = _WEIGHTS.get(cells["precision"])
    if shape is None:
        return "a language model of unknown shape"
    if weights is None:
        return f"unknown precision {cells['precision']}"
    if cells["task"] == "generate":
        return _generating(shape, weights, cells)
    return _tuning(model, shape, weights, cells)


def _generating(shape: DecoderShape, weights: str, cells: Mapping[str, str]) -> float:
    """If a length is given, the prompt has that length and scores are computed for every position, as transformers does."""
    devices, batch = _count(cells["gpu_count"] or "1"), _count(cells["batch_per_gpu"] or "1")
    prompt = _count(cells["image_or_seq"]) if cells["image_or_seq"].isdigit() else 0
    split = _SPLITS.get(cells["method"], "")
    tokens = prompt or _GENERATED
    found = generation_memory(shape, weights, batch=batch, tokens=tokens, split=split, devices=devices)
    return found.allocated_bytes + _PROMPT_SCORE * batch * prompt * shape.vocabulary + causal_masks_bytes(cells)


def causal_masks_bytes(cells: Mapping[str, str]) -> float:
    """transformers at that time kept a causal mask of one byte per score in every layer of GPT-NeoX."""
    if cells["source"] != "hf_transformers_docs" or cells.get("family") != "gpt-neox":
        return 0.0
    _, shape = _model(cells["model"])
    return float(shape.layers * _GPT_NEOX_POSITIONS**2) if shape is not None else 0.0


def _tuning(model: LanguageModel | None, shape: DecoderShape, weights: str, cells: Mapping[str, str]) -> float | str:
    devices, batch = _count(cells["gpu_count"] or "1"), _count(cells["batch_per_gpu"] or "1")
    method = _METHODS.get(cells["method"])
    if method is None or cells["task"] != "finetune":
        return f"unknown method {cells['method']}"
    recipe = cells["gpu"] == _RECIPES_ON
    if devices > 1 and not (recipe and method == "lora"):
        return "weights and states sharded over several GPUs, with recomputed activations"
    seq = _tokens(cells)
    if seq is None:
        return f"no sequence length in {cells['image_or_seq']}"
    own = model if recipe and model is not None else None
    how = Adaptation(
        method=method,
        weights=weights,
        rank=own.lora_rank if own is not None else 8,
        everywhere=own.lora_everywhere if own is not None else False,
    )
    return adaptation_memory(shape, how, batch=batch, seq=seq).allocated_bytes


def _model(name: str) -> tuple[LanguageModel | None, DecoderShape | None]:
    """Find a model by the names in our own table, or by the last part of an id in the table of Hugging Face configurations."""
    wanted = name.lower()
    for model in language_models():
        if wanted in (model.repo.lower(), model.repo.lower().rpartition("/")[2], *model.aliases):
            return model, model.shape
    for repository in table():
        if wanted.removesuffix("-deduped") in (repository.lower(), repository.lower().rpartition("/")[2]):
            return None, shape_from_config(huggingface_configs.find_config(f"hf:{repository}").config)
    return None, None


def _count(text: str) -> int:
    """Return a plausible batch, sequence or number of GPUs as a whole number; raise ValueError otherwise."""
    if not 1 <= (found := int(text)) < 2**31:
        raise ValueError(f"{found:g} is not a valid number")
    return found


def _tokens(cells: Mapping[str, str]) -> int | None:
    """Return the tokens of the longest sample: a number or, for Alpaca, what LitGPT states for the model's tokenizer."""
    text = cells["image_or_seq"]
    if text.isdigit():
        return _count(text)
    if "alpaca" in text.lower():
        name = cells["model"].lower()
        for family, tokens in _file().alpaca_tokens.items():
            if family in name:
                return tokens
    found = re.search(r"\d{1,9}", text)
    return _count(found[0]) if found else None
