"""Decoders of the first generation, from GPT-2 to Falcon: norms with biases, MLPs without a gate."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwise.core.errors import BadValue
from gpuwise.workload.language.common import HEADS, WIDTH, Describe, Sizes, all_biased, biased, sizes_of, window_of, windows
from gpuwise.workload.language.reading import Reader, shown

__all__ = ["EARLY"]


def _gpt2(read: Reader) -> Sizes:
    hidden, places = read.count(*WIDTH), read.count("n_positions", "max_position_embeddings", most="context")
    inner = read.count("n_inner", default=4 * hidden)
    return sizes_of(read, tied=True, intermediate=inner, positions=places, gated=False, layer_norm=True, **all_biased())


def _gpt_neo(read: Reader) -> Sizes:
    hidden, places = read.count(*WIDTH), read.count("max_position_embeddings", most="context")
    inner = read.count("intermediate_size", default=4 * hidden)
    more = all_biased() | {"attention_bias": False}
    sizes = sizes_of(read, tied=True, intermediate=inner, positions=places, gated=False, layer_norm=True, **more)
    local = 0
    for row in read.listed("attention_types"):
        if not (isinstance(row, list | tuple) and len(row) == 2 and isinstance(row[0], list | tuple) and isinstance(row[1], int)):
            raise BadValue(
                f"'attention_types' in {read.where} has an invalid row {shown(row)}",
                hint='use the form `[[["global", "local"], 12]]`',
            )
        local += min(max(row[1], 0), sizes["layers"]) * sum(kind == "local" for kind in row[0])
    return windows(read, sizes, window_of(read, "window_size", 256), local)


def _gptj(read: Reader) -> Sizes:
    inner = read.count("n_inner", default=4 * read.count(*WIDTH))
    return sizes_of(read, intermediate=inner, gated=False, layer_norm=True, norms=1, mlp_bias=True, head_bias=True)


def _gpt_neox(read: Reader) -> Sizes:
    more = all_biased() | {"attention_bias": read.flag("attention_bias", True), "output_bias": read.flag("attention_bias", True)}
    return sizes_of(read, gated=False, layer_norm=True, **more)


def _opt(read: Reader) -> Sizes:
    hidden = read.count(*WIDTH)
    if read.count("word_embed_proj_dim", default=hidden) != hidden or not read.flag("do_layer_norm_before", True):
        raise BadValue(
            f"{read.where} projects its embeddings to another width, which is not supported (only opt-350m does this)",
            hint="choose `opt-125m` or `opt-1.3b`",
        )
    places = read.count("max_position_embeddings", most="context") + 2  # OPT leaves the first two rows of its table unused
    bias = all_biased(read.flag("enable_bias", True))
    return sizes_of(read, tied=True, intermediate=read.count("ffn_dim"), positions=places, gated=False, layer_norm=True, **bias)


def _bloom(read: Reader) -> Sizes:
    context = read.count("seq_length", most="context", default=2048)
    inner = 4 * read.count(*WIDTH)
    more = all_biased() | {"layer_norm": True, "embedding_norm": True}
    return sizes_of(read, tied=True, intermediate=inner, context=context, gated=False, **more)


def _falcon(read: Reader) -> Sizes:
    hidden, heads = read.count(*WIDTH), read.count(*HEADS, most="heads")
    new = read.flag("new_decoder_architecture")
    shared = 1 if read.flag("multi_query", True) else heads
    own = read.count("num_kv_heads", "n_head_kv", most="heads", default=heads)
    norms = read.count("num_ln_in_parallel_attn", default=2) if new else 1 if read.flag("parallel_attn", True) else 2
    return sizes_of(
        read,
        tied=True,
        kv_heads=own if new else shared,
        intermediate=read.count("ffn_hidden_size", default=4 * hidden),
        context=read.count("max_position_embeddings", most="context", default=2048),
        gated=False,
        layer_norm=True,
        norms=norms,
        **all_biased(read.flag("bias")),
    )


def _mpt(read: Reader) -> Sizes:
    attention = read.inner("attn_config")
    if attention.flag("qk_ln"):
        raise BadValue(f"{read.where} normalises its queries and keys ('qk_ln'), which is not supported", hint="use `mpt-7b`")
    heads, context = read.count(*HEADS, most="heads"), read.count("max_seq_len", most="context", default=2048)
    return sizes_of(
        read,
        tied=True,
        kv_heads=attention.count("kv_n_heads", most="heads", default=heads),
        intermediate=read.count("expansion_ratio", default=4) * read.count(*WIDTH),
        context=context,
        positions=0 if attention.flag("alibi", True) else context,
        gated=False,
        **all_biased(not read.flag("no_bias", True)),
    )


def _phi(read: Reader) -> Sizes:
    more = all_biased() | {"qk_norm": read.flag("qk_layernorm")}
    return sizes_of(read, gated=False, layer_norm=True, norms=1, head_bias=True, **more)


def _starcoder2(read: Reader) -> Sizes:
    sizes = sizes_of(read, tied=True, gated=False, layer_norm=True, **all_biased(read.flag("use_bias", True)))
    return windows(read, sizes, window_of(read), sizes["layers"])


def _nemotron(read: Reader) -> Sizes:
    return sizes_of(read, gated=False, layer_norm=True, **biased(read))


EARLY: Mapping[str, Describe] = {
    "bloom": _bloom,
    "falcon": _falcon,
    "gpt2": _gpt2,
    "gpt_neo": _gpt_neo,
    "gpt_neox": _gpt_neox,
    "gptj": _gptj,
    "mpt": _mpt,
    "nemotron": _nemotron,
    "opt": _opt,
    "phi": _phi,
    "starcoder2": _starcoder2,
}
