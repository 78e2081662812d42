"""The contents of the layers of each kind of decoder, from the names and switches in its Hugging Face configuration.

Each model type has a few lines for its peculiarities: biases, norms, windows, experts. If a published configuration
omits a value, the default is that of the type's configuration class in transformers.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuwise.workload.language.common import (
    HEADS,
    LAYERS,
    Describe,
    Sizes,
    all_biased,
    all_but_every,
    biased,
    sizes_of,
    window_of,
    windows,
)
from gpuwise.workload.language.early import EARLY
from gpuwise.workload.language.reading import Reader

__all__ = ["TYPES"]


# ---------------------------------------------------------------- Llama and what is built like it


def _llama(read: Reader) -> Sizes:
    return sizes_of(read, **biased(read))


def _smollm3(read: Reader) -> Sizes:
    return _late_windows(read, sizes_of(read, tied=True, **biased(read)))


def _mistral(read: Reader) -> Sizes:
    sizes = sizes_of(read)
    usual = 4096 if "sliding_window" not in read.values else 0
    return windows(read, sizes, window_of(read, default=usual), sizes["layers"])


def _phi3(read: Reader) -> Sizes:
    sizes = sizes_of(read)
    return windows(read, sizes, window_of(read), sizes["layers"])


def _qwen(read: Reader) -> Sizes:
    inner = read.count("intermediate_size") // 2  # it counts both branches of the gated MLP
    context = read.count("seq_length", "max_position_embeddings", most="context")  # the second is the extended length
    return sizes_of(read, intermediate=inner, context=context, attention_bias=True)


def _late_windows(read: Reader, sizes: Sizes) -> Sizes:
    """The Qwen types: a window, if enabled, from a certain layer on."""
    late = sizes["layers"] - read.count("max_window_layers", most="layers", default=0, least=0)
    on = read.flag("use_sliding_window")
    return windows(read, sizes, window_of(read, default=4096) if on else 0, max(late, 0))


def _qwen2(read: Reader) -> Sizes:
    return _late_windows(read, sizes_of(read, attention_bias=True))


def _qwen2_moe(read: Reader) -> Sizes:
    experts = _qwen_experts(read) | {"shared_intermediate": read.count("shared_expert_intermediate_size", default=0, least=0)}
    return _late_windows(read, sizes_of(read, attention_bias=True, shared_gate=True, **experts))


def _sparse_layers(read: Reader, layers: int) -> int:
    """Dense layers of the Qwen types: those listed, and all but every `decoder_sparse_step`-th."""
    named = {index for index in read.listed("mlp_only_layers") if isinstance(index, int)}
    step = read.count("decoder_sparse_step", default=1)
    return sum(index in named or (index + 1) % step != 0 for index in range(layers))


def _qwen_experts(read: Reader) -> Sizes:
    return {
        "experts": read.count("num_experts", most="experts"),
        "chosen": read.count("num_experts_per_tok", most="experts"),
        "expert_intermediate": read.count("moe_intermediate_size"),
        "dense_layers": _sparse_layers(read, read.count(*LAYERS, most="layers")),
    }


def _qwen3(read: Reader) -> Sizes:
    return _late_windows(read, sizes_of(read, head_dim=read.count("head_dim", default=128), qk_norm=True, **biased(read)))


def _qwen3_moe(read: Reader) -> Sizes:
    return _late_windows(read, sizes_of(read, qk_norm=True, **biased(read), **_qwen_experts(read)))


def _mixtral(read: Reader) -> Sizes:
    experts: Sizes = {
        "experts": read.count("num_local_experts", most="experts"),
        "chosen": read.count("num_experts_per_tok", most="experts"),
        "expert_intermediate": read.count("intermediate_size"),
    }
    sizes = sizes_of(read, **experts)
    return windows(read, sizes, window_of(read), sizes["layers"])


def _llama4(read: Reader) -> Sizes:
    layers, step = read.count(*LAYERS, most="layers"), read.count("interleave_moe_layer_step", default=1)
    routed = len(set(map(str, read.listed("moe_layers")))) or layers // step
    experts: Sizes = {
        "experts": read.count("num_local_experts", most="experts"),
        "chosen": read.count("num_experts_per_tok", most="experts", default=1),
        "expert_intermediate": read.count("intermediate_size"),
        "shared_intermediate": read.count("intermediate_size"),
        "dense_layers": layers - routed,
    }
    sizes = sizes_of(read, intermediate=read.count("intermediate_size_mlp"), **experts, **biased(read))
    every = read.count("no_rope_layer_interval", default=4)
    return windows(read, sizes, window_of(read, "attention_chunk_size"), all_but_every(layers, every))


def _gpt_oss(read: Reader) -> Sizes:
    experts: Sizes = {
        "experts": read.count("num_local_experts", "num_experts", most="experts"),
        "chosen": read.count("num_experts_per_tok", "experts_per_token", most="experts"),
        "expert_intermediate": read.count("intermediate_size"),
    }
    more = all_biased() | {"attention_bias": read.flag("attention_bias", True), "output_bias": read.flag("attention_bias", True)}
    sizes = sizes_of(read, sinks=True, router_bias=True, **more, **experts)
    return windows(read, sizes, window_of(read), all_but_every(sizes["layers"], 2))


def _deepseek(read: Reader) -> Sizes:
    position = read.count("qk_rope_head_dim")
    attention = read.flag("attention_bias")
    return sizes_of(
        read,
        kv_heads=read.count(*HEADS, most="heads"),
        head_dim=read.count("qk_nope_head_dim") + position,
        value_dim=read.count("v_head_dim"),
        latent=read.count("kv_lora_rank"),
        rope_dim=position,
        query_latent=read.count("q_lora_rank", default=0),
        attention_bias=attention,
        output_bias=attention,
        **_shared_experts(read),
    )


def _shared_experts(read: Reader) -> Sizes:
    """Experts as in DeepSeek and GLM: some initial layers have none, and some experts process every token."""
    experts = read.count("n_routed_experts", most="experts", default=0, least=0)
    if not experts:
        return {}
    width, layers = read.count("moe_intermediate_size"), read.count(*LAYERS, most="layers")
    first, every = read.count("first_k_dense_replace", default=0, least=0), read.count("moe_layer_freq", default=1)
    return {
        "experts": experts,
        "chosen": read.count("num_experts_per_tok", most="experts"),
        "expert_intermediate": width,
        "shared_intermediate": width * read.count("n_shared_experts", most="experts", default=0, least=0),
        "dense_layers": sum(index < first or index % every != 0 for index in range(layers)),
    }


def _glm4_moe(read: Reader) -> Sizes:
    return sizes_of(read, qk_norm=read.flag("use_qk_norm"), **biased(read, output=False), **_shared_experts(read))


def _glm(norms: int) -> Describe:
    return lambda read: sizes_of(read, norms=norms, **biased(read, output=False))


# ---------------------------------------------------------------- Gemma, Cohere, OLMo


def _gemma(read: Reader) -> Sizes:
    return sizes_of(read, tied=True, **biased(read))


def _gemma2(read: Reader) -> Sizes:
    sizes = sizes_of(read, tied=True, norms=4, **biased(read))
    return windows(read, sizes, window_of(read, default=4096), all_but_every(sizes["layers"], 2))


def _gemma3(read: Reader) -> Sizes:
    stated = {
        "vocab_size": 262_208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131_072,
    }
    read = Reader({**stated, **{key: value for key, value in read.values.items() if value is not None}}, read.where)
    sizes = sizes_of(read, tied=True, norms=4, qk_norm=True, **biased(read))
    every = read.count("sliding_window_pattern", "_sliding_window_pattern", default=6)
    return windows(read, sizes, window_of(read, default=4096), all_but_every(sizes["layers"], every))


def _cohere(read: Reader) -> Sizes:
    norm = read.flag("use_qk_norm")
    return sizes_of(read, tied=True, norms=1, qk_norm=norm, wide_qk_norm=norm, **biased(read))


def _cohere2(read: Reader) -> Sizes:
    sizes = _cohere(read)
    every = read.count("sliding_window_pattern", "_sliding_window_pattern", default=4)
    return windows(read, sizes, window_of(read, default=4096), all_but_every(sizes["layers"], every))


def _olmo(read: Reader) -> Sizes:
    return sizes_of(read, norms=0, **biased(read))


def _olmo2(read: Reader) -> Sizes:
    return sizes_of(read, qk_norm=True, wide_qk_norm=True, **biased(read))


TYPES: Mapping[str, Describe] = {
    **EARLY,
    "cohere": _cohere,
    "cohere2": _cohere2,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "glm": _glm(2),
    "glm4": _glm(4),
    "glm4_moe": _glm4_moe,
    "gpt_oss": _gpt_oss,
    "granite": _llama,
    "llama": _llama,
    "llama4_text": _llama4,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "olmo": _olmo,
    "olmo2": _olmo2,
    "phi3": _phi3,
    "qwen": _qwen,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "smollm3": _smollm3,
}
