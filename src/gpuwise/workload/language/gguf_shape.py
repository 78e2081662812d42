"""Derives the sizes of a decoder from the settings and tensors of its GGUF file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuwise.core.errors import BadFile, BadValue
from gpuwise.workload.language.gguf_header import Listed, Tensor
from gpuwise.workload.language.reading import Reader, checked
from gpuwise.workload.language.shape import LanguageShape

__all__ = ["shape_of_tensors"]

Block = Mapping[str, Tensor]

_BLOCK = re.compile(r"blk\.(\d{1,5})\.(.+)")
_NOT_OF_THE_STREAM = re.compile(r"attn_(q|k|kv_a|q_a|sub)_norm|ffn_sub_norm|nextn")
# Every n-th layer attends to the whole context, the others to a window.
_PERIODS = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2, "cohere2": 4, "llama4": 4}


def shape_of_tensors(path: Path, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> LanguageShape:
    """Return the sizes of the decoder with these tensors."""
    where = f"the header of {path.name}"
    kind = Reader(settings, where).word("general.architecture")
    if not kind:
        raise BadFile(f"{where} has no 'general.architecture'", hint="pass the first file of a llama.cpp model")
    prefix = f"{kind}."
    own = {key.removeprefix(prefix): _plain(value) for key, value in settings.items() if key.startswith(prefix)}
    read = Reader(own, where)
    blocks = _blocks(tensors)
    _refuse_others(kind, where, tensors, list(blocks.values()))
    layers = read.count("block_count", most="layers") - read.count("nextn_predict_layers", default=0, least=0)
    present = [blocks[number] for number in sorted(blocks) if number < layers]
    if not present:
        raise BadValue(f"{where} describes none of its {layers} layers", hint="put all files of the model in one folder")
    name = Reader(settings, where).word("general.name") or path.stem
    sizes = _outside(read, tensors) | {"layers": layers} | _attention(read, present[0]) | _norms(tensors, present[0])
    sizes |= _mlp(read, present, layers)
    sizes |= _window(read, kind, layers, sizes["context"])
    return checked(LanguageShape(name=name[:200], **sizes), where)


def _plain(value: object) -> object:
    """Collapse per-layer numbers into one if they are all equal; otherwise keep the list, which is not a valid size."""
    if isinstance(value, Listed):
        return value.values[0] if value.values and len(set(value.values)) == 1 else list(value.values)
    return value


def _blocks(tensors: Mapping[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    found: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if match := _BLOCK.fullmatch(name):
            found.setdefault(int(match[1]), {})[match[2]] = tensor
    return found


def _refuse_others(kind: str, where: str, tensors: Mapping[str, Tensor], blocks: list[dict[str, Tensor]]) -> None:
    """Refuse anything other than a decoder made of attention layers."""
    hint = "pass the GGUF file of a decoder with attention layers only, such as Llama, Qwen or Gemma"
    if any(key.startswith(("ssm_", "time_mix", "shortconv")) for block in blocks for key in block):
        raise BadValue(
            f"{where} describes a '{kind}' model, in which some layers keep a state instead of using attention", hint=hint
        )
    if "token_embd.weight" not in tensors or not blocks:
        raise BadValue(
            f"{where} describes a '{kind}' file without an embedding table or layers, which is not a language model", hint=hint
        )
    if not any("attn_output.weight" in block for block in blocks) or "token_types.weight" in tensors:
        raise BadValue(f"{where} describes a '{kind}' model, which is not a known decoder", hint=hint)


def _of(tensor: Tensor, dim: int, where: str) -> int:
    """Return one dimension of a tensor that must exist."""
    if len(tensor.dims) <= dim or not 1 <= tensor.dims[dim] <= 2**24:
        raise BadValue(
            f"{where} describes '{tensor.name}' as {'x'.join(map(str, tensor.dims))}, which is not a valid shape",
            hint="download the file again",
        )
    return tensor.dims[dim]


def _outside(read: Reader, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the sizes outside the layers."""
    places = tensors.get("position_embd.weight")
    return {
        "hidden": read.count("embedding_length"),
        "vocabulary": _of(tensors["token_embd.weight"], 1, read.where),
        "context": read.count("context_length", most="context"),
        "tied": "output.weight" not in tensors,
        "positions": _of(places, 1, read.where) if places else 0,
        "embedding_norm": "token_embd_norm.weight" in tensors,
        "head_bias": "output.bias" in tensors,
    }


def _attention(read: Reader, block: Block) -> dict[str, Any]:
    heads = read.count("attention.head_count", most="heads")
    hidden = read.count("embedding_length")
    dim = read.count("attention.key_length_mla", "attention.key_length", default=max(hidden // heads, 1))
    latent = read.count("attention.kv_lora_rank", default=0, least=0) if "attn_kv_a_mqa.weight" in block else 0
    values = read.count("attention.value_length_mla", "attention.value_length", default=dim)
    found = {
        "heads": heads,
        "kv_heads": heads if latent else read.count("attention.head_count_kv", most="heads", default=heads),
        "head_dim": dim,
        "value_dim": values if values != dim else 0,
        "attention_bias": any(f"{key}.bias" in block for key in ("attn_q", "attn_qkv", "attn_q_a")),
        "output_bias": "attn_output.bias" in block,
        "sinks": "attn_sinks.weight" in block or "attn_sinks" in block,
        "latent": latent,
    }
    if latent:
        query = block.get("attn_q_a.weight")
        found["rope_dim"] = read.count("rope.dimension_count")
        found["query_latent"] = _of(query, 1, read.where) if query else 0
    norm = block.get("attn_q_norm.weight")
    return found | {"qk_norm": norm is not None, "wide_qk_norm": norm is not None and norm.elements > dim}


def _norms(tensors: Mapping[str, Tensor], block: Block) -> dict[str, Any]:
    """Return the number of norms with weights between the parts of a layer."""
    names = [key for key in block if re.search(r"norm(_\d)?\.weight$", key) and not _NOT_OF_THE_STREAM.match(key)]
    return {"norms": len(names), "layer_norm": "output_norm.bias" in tensors}


def _mlp(read: Reader, blocks: list[dict[str, Tensor]], layers: int) -> dict[str, Any]:
    where = read.where
    dense = next((block for block in blocks if "ffn_down.weight" in block), {})
    routed = next((block for block in blocks if "ffn_down_exps.weight" in block), {})
    if not dense and not routed:
        raise BadValue(f"{where} has layers without an MLP", hint="pass a GGUF file that llama.cpp can load")
    found: dict[str, Any] = {"mlp_bias": any(f"{key}.bias" in (dense or routed) for key in ("ffn_down", "ffn_down_exps"))}
    width = _of(dense["ffn_down.weight"] if dense else routed["ffn_down_exps.weight"], 0, where)
    if dense:
        up = dense.get("ffn_up.weight")
        fused = up is not None and len(up.dims) > 1 and up.dims[1] == 2 * width
        found["gated"] = fused or "ffn_gate.weight" in dense
    if not routed:
        return found | {"intermediate": width}
    down = routed["ffn_down_exps.weight"]
    shared = routed.get("ffn_down_shexp.weight")
    without = sum("ffn_down_exps.weight" not in block for block in blocks)
    return found | {
        "intermediate": width,
        "gated": "ffn_gate_exps.weight" in routed or "ffn_gate_up_exps.weight" in routed,
        "experts": _of(down, 2, where),
        "chosen": read.count("expert_used_count", most="experts"),
        "expert_intermediate": _of(down, 0, where),
        "shared_intermediate": _of(shared, 0, where) if shared else 0,
        "shared_gate": "ffn_gate_inp_shexp.weight" in routed,
        "router_bias": "ffn_gate_inp.bias" in routed,
        "dense_layers": min(without, layers),
    }


def _window(read: Reader, kind: str, layers: int, context: int) -> dict[str, Any]:
    width = read.count("attention.sliding_window", "attention.chunk_size", most="context", default=0, least=0)
    if not width or width >= context:
        return {}
    pattern = read.values.get("attention.sliding_window_pattern")
    if isinstance(pattern, list) and pattern:
        short = sum(bool(one) for one in pattern[:layers])
    else:
        short = layers - layers // _PERIODS[kind] if kind in _PERIODS else layers
    return {"window": width, "window_layers": short}
