"""Settings that the configurations of all decoders have in common: sizes, windows, biases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuwise.core.errors import BadValue
from gpuwise.workload.language.reading import Reader

__all__ = [
    "HEADS",
    "LAYERS",
    "WIDTH",
    "Describe",
    "Sizes",
    "all_biased",
    "all_but_every",
    "biased",
    "head_dim_of",
    "sizes_of",
    "window_of",
    "windows",
]

Sizes = dict[str, Any]
Describe = Callable[[Reader], Sizes]

HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
WIDTH = ("hidden_size", "n_embd", "n_embed", "d_model")
_CONTEXT = ("max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "max_sequence_length")


def sizes_of(read: Reader, *, tied: bool = False, **more: Any) -> Sizes:
    """Return the sizes every decoder has; `more` overrides the ones it names."""
    hidden, heads = read.count(*WIDTH), read.count(*HEADS, most="heads")
    found: Sizes = {
        "hidden": hidden,
        "layers": read.count(*LAYERS, most="layers"),
        "heads": heads,
        "kv_heads": read.count("num_key_value_heads", most="heads", default=heads),
        "vocabulary": read.count("vocab_size", most="vocabulary"),
        "tied": read.flag("tie_word_embeddings", tied),
    }
    if "context" not in more:
        found["context"] = read.count(*_CONTEXT, most="context")
    if "intermediate" not in more:
        found["intermediate"] = read.count("intermediate_size")
    if "head_dim" not in more:
        found["head_dim"] = head_dim_of(read, hidden, heads)
    return found | more


def head_dim_of(read: Reader, hidden: int, heads: int) -> int:
    if read.values.get("head_dim") is None and hidden % heads:
        raise BadValue(
            f"{read.where} is inconsistent: a width of {hidden} cannot be divided evenly by {heads} heads",
            hint="check `hidden_size` and `num_attention_heads`, or add `head_dim`",
        )
    return read.count("head_dim", default=hidden // heads)


def windows(read: Reader, sizes: Sizes, window: int, layers: int) -> Sizes:
    """Add a window of this length to this many layers; `layer_types` takes precedence over the number if present."""
    kinds = read.listed("layer_types")
    if kinds:
        layers = sum(kind in ("sliding_attention", "chunked_attention") for kind in kinds[: sizes["layers"]])
    if not window or not layers or window >= sizes["context"]:
        return sizes
    return sizes | {"window": window, "window_layers": layers}


def window_of(read: Reader, key: str = "sliding_window", default: int = 0) -> int:
    return read.count(key, most="context", default=default, least=0)


def all_but_every(layers: int, period: int) -> int:
    """Return the number of layers that remain when every n-th is removed."""
    return layers - layers // period


def biased(read: Reader, *, output: bool = True, default: bool = False) -> Sizes:
    """Return biases according to `attention_bias` and `mlp_bias`; some types have none after the attention."""
    attention = read.flag("attention_bias", default)
    return {"attention_bias": attention, "output_bias": attention and output, "mlp_bias": read.flag("mlp_bias")}


def all_biased(biased: bool = True) -> Sizes:
    return {"attention_bias": biased, "output_bias": biased, "mlp_bias": biased}
