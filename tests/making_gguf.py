"""Writes small GGUF files: headers in llama.cpp's layout, followed by any number of tensor bytes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from gpuwise.workload.language.ggml import FORMATS

F32, F16, Q4_0, Q4_K, Q6_K, MXFP4 = 0, 1, 2, 12, 14, 39
Tensors = dict[str, tuple[tuple[int, ...], int]]


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def typed(value: Any) -> bytes:
    """A value with its type before it: booleans, whole numbers, fractions, texts, lists of one kind."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    first = typed(value[0]) if value else struct.pack("<I", 4)
    return struct.pack("<I", 9) + first[:4] + struct.pack("<Q", len(value)) + b"".join(typed(one)[4:] for one in value)


def header(settings: dict[str, Any], tensors: Tensors, *, version: int = 3) -> tuple[bytes, int]:
    """The header up to its padding, and how many bytes of tensors belong behind it."""
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(settings))
    for key, value in settings.items():
        out += text(key) + typed(value)
    offset = 0
    for name, (dims, kind) in tensors.items():
        out += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
        elements = 1
        for dim in dims:
            elements *= dim
        offset += -(-elements // FORMATS[kind].numbers * FORMATS[kind].bytes // 32) * 32
    return out + bytes(-len(out) % 32), offset


def write(path: Path, settings: dict[str, Any], tensors: Tensors, *, data: bool = True) -> Path:
    head, size = header(settings, tensors)
    path.write_bytes(head + (bytes(size) if data else b""))
    return path


def llama(kind: int = Q4_0) -> tuple[dict[str, Any], Tensors]:
    """A Llama of two layers with a tied table, three heads to a head of keys."""
    settings: dict[str, Any] = {
        "general.architecture": "llama",
        "general.name": "Tiny Llama",
        "general.file_type": 2,
        "llama.block_count": 2,
        "llama.context_length": 512,
        "llama.embedding_length": 96,
        "llama.feed_forward_length": 256,
        "llama.attention.head_count": 6,
        "llama.attention.head_count_kv": 2,
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.tokens": [f"word{number}" for number in range(300)],
        "tokenizer.ggml.scores": [0.5] * 300,
        "tokenizer.ggml.add_bos_token": True,
    }
    tensors: Tensors = {"token_embd.weight": ((96, 300), kind), "output_norm.weight": ((96,), F32)}
    for layer in range(2):
        tensors |= {f"blk.{layer}.{name}": row for name, row in _attention(96, 96, 32, kind).items()}
        tensors |= {f"blk.{layer}.{name}": row for name, row in _mlp(96, 256, kind).items()}
    return settings, tensors


def _attention(hidden: int, queries: int, keys: int, kind: int) -> Tensors:
    return {
        "attn_norm.weight": ((hidden,), F32),
        "attn_q.weight": ((hidden, queries), kind),
        "attn_k.weight": ((hidden, keys), kind),
        "attn_v.weight": ((hidden, keys), kind),
        "attn_output.weight": ((queries, hidden), kind),
    }


def _mlp(hidden: int, width: int, kind: int) -> Tensors:
    return {
        "ffn_norm.weight": ((hidden,), F32),
        "ffn_gate.weight": ((hidden, width), kind),
        "ffn_up.weight": ((hidden, width), kind),
        "ffn_down.weight": ((width, hidden), kind),
    }


def gpt_oss() -> tuple[dict[str, Any], Tensors]:
    """Experts with biases, sinks, and a window in every other layer."""
    settings: dict[str, Any] = {
        "general.architecture": "gpt-oss",
        "general.file_type": 38,
        "gpt-oss.block_count": 4,
        "gpt-oss.context_length": 4096,
        "gpt-oss.embedding_length": 64,
        "gpt-oss.attention.head_count": 4,
        "gpt-oss.attention.head_count_kv": [2, 2, 2, 2],
        "gpt-oss.attention.key_length": 32,
        "gpt-oss.attention.value_length": 32,
        "gpt-oss.attention.sliding_window": 128,
        "gpt-oss.expert_used_count": 2,
    }
    tensors: Tensors = {
        "token_embd.weight": ((64, 512), F16),
        "output.weight": ((64, 512), F16),
        "output_norm.weight": ((64,), F32),
    }
    block = _attention(64, 128, 64, F16) | {
        "attn_q.bias": ((128,), F32),
        "attn_k.bias": ((64,), F32),
        "attn_v.bias": ((64,), F32),
        "attn_output.bias": ((64,), F32),
        "attn_sinks.weight": ((4,), F32),
        "post_attention_norm.weight": ((64,), F32),
        "ffn_gate_inp.weight": ((64, 8), F32),
        "ffn_gate_inp.bias": ((8,), F32),
    }
    for name, dims in {"gate": (64, 96), "up": (64, 96), "down": (96, 64)}.items():
        block[f"ffn_{name}_exps.weight"] = ((*dims, 8), MXFP4)
        block[f"ffn_{name}_exps.bias"] = ((dims[1], 8), F32)
    return settings, tensors | {f"blk.{layer}.{name}": row for layer in range(4) for name, row in block.items()}


def deepseek() -> tuple[dict[str, Any], Tensors]:
    """Latent attention; the first layer is dense, the others have experts and a shared one."""
    settings: dict[str, Any] = {
        "general.architecture": "deepseek2",
        "deepseek2.block_count": 3,
        "deepseek2.context_length": 4096,
        "deepseek2.embedding_length": 64,
        "deepseek2.attention.head_count": 4,
        "deepseek2.attention.head_count_kv": 1,
        "deepseek2.attention.key_length": 48,
        "deepseek2.attention.key_length_mla": 24,
        "deepseek2.attention.value_length": 40,
        "deepseek2.attention.value_length_mla": 16,
        "deepseek2.attention.kv_lora_rank": 40,
        "deepseek2.rope.dimension_count": 8,
        "deepseek2.expert_used_count": 2,
    }
    attention: Tensors = {
        "attn_norm.weight": ((64,), F32),
        "attn_q_a.weight": ((64, 32), F16),
        "attn_q_a_norm.weight": ((32,), F32),
        "attn_q_b.weight": ((32, 96), F16),
        "attn_kv_a_mqa.weight": ((64, 48), F16),
        "attn_kv_a_norm.weight": ((40,), F32),
        "attn_k_b.weight": ((16, 40, 4), F16),
        "attn_v_b.weight": ((40, 16, 4), F16),
        "attn_output.weight": ((64, 64), F16),
    }
    routed: Tensors = {"ffn_norm.weight": ((64,), F32), "ffn_gate_inp.weight": ((64, 8), F32)}
    for name, dims in {"gate": (64, 32), "up": (64, 32), "down": (32, 64)}.items():
        routed[f"ffn_{name}_exps.weight"] = ((*dims, 8), F16)
        routed[f"ffn_{name}_shexp.weight"] = (dims, F16)
    tensors: Tensors = {
        "token_embd.weight": ((64, 512), F16),
        "output.weight": ((64, 512), F16),
        "output_norm.weight": ((64,), F32),
    }
    for layer in range(3):
        rows = attention | (routed if layer else _mlp(64, 128, F16))
        tensors |= {f"blk.{layer}.{name}": row for name, row in rows.items()}
    return settings, tensors


def phi3() -> tuple[dict[str, Any], Tensors]:
    """Queries, keys and values in one matrix, gate and up in another."""
    settings, tensors = llama(Q4_0)
    renamed: dict[str, Any] = {key.replace("llama.", "phi3."): value for key, value in settings.items()}
    renamed |= {"general.architecture": "phi3", "phi3.attention.sliding_window": 128}
    kept = {
        name: row for name, row in tensors.items() if not any(part in name for part in ("_q.", "_k.", "_v.", "gate", "ffn_up"))
    }
    for layer in range(2):
        kept[f"blk.{layer}.attn_qkv.weight"] = ((96, 96 + 64), Q4_0)
        kept[f"blk.{layer}.ffn_up.weight"] = ((96, 512), Q4_0)
    return renamed, kept
