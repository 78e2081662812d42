"""Sizes from a configuration: every decoder of the table has its published count, and what is wrong is refused in words."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwise.core.errors import BadValue
from gpuwise.workload.capture.huggingface import hub_names
from gpuwise.workload.capture.huggingface.known import known_parameters, known_row, table
from gpuwise.workload.language.configs import model_types, shape_of_config

NOT_DECODERS = hub_names.TYPES | {"whisper"}
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
}


def row(name: str) -> dict[str, Any]:
    return known_row(name)


DECODERS = sorted(name for name in table() if row(name)["model_type"] not in NOT_DECODERS)


@pytest.mark.parametrize("name", DECODERS)
def test_every_decoder_of_the_table_has_its_published_count(name: str) -> None:
    assert shape_of_config(name, row(name)).parameters == known_parameters()[name]


@pytest.mark.parametrize("name", ["bert-base-uncased", "openai/whisper-small"])
def test_what_is_no_decoder_is_refused(name: str) -> None:
    with pytest.raises(BadValue, match="encoder"):
        shape_of_config(name, row(name))


@pytest.mark.parametrize(
    ("name", "billions"),
    {
        "Qwen/Qwen3-30B-A3B": 3.35,
        "Qwen/Qwen3-235B-A22B": 22.19,
        "openai/gpt-oss-120b": 5.71,  # the card says 5.1 and leaves out the table of words
        "openai/gpt-oss-20b": 4.19,  # 3.6 without that table
        "mistralai/Mixtral-8x7B-v0.1": 12.88,
        "deepseek-ai/DeepSeek-V3": 37.55,
        "deepseek-ai/DeepSeek-V2-Lite": 2.66,
        "meta-llama/Llama-4-Maverick-17B-128E-Instruct": 17.2,
    }.items(),
)
def test_a_token_meets_the_weights_that_the_card_says(name: str, billions: float) -> None:
    assert shape_of_config(name, row(name)).active_parameters / 1e9 == pytest.approx(billions, rel=0.01)


@pytest.mark.parametrize(
    ("name", "window", "layers"),
    [
        ("google/gemma-3-27b-it", 1024, 52),  # 10 of 62 look back all the way
        ("google/gemma-2-9b", 4096, 21),
        ("openai/gpt-oss-20b", 128, 12),
        ("EleutherAI/gpt-neo-1.3B", 256, 12),
        ("mistralai/Mistral-7B-v0.1", 4096, 32),
        ("mistralai/Mistral-7B-v0.3", 0, 0),
        ("Qwen/Qwen2.5-7B", 0, 0),
        ("microsoft/Phi-3-mini-128k-instruct", 0, 0),  # its window is longer than its context
        ("CohereForAI/c4ai-command-r7b-12-2024", 4096, 24),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 8192, 36),
    ],
)
def test_windows(name: str, window: int, layers: int) -> None:
    shape = shape_of_config(name, row(name))
    assert (shape.window, shape.window_layers) == (window, layers)


def test_the_types_of_layers_are_counted_where_they_are_listed() -> None:
    kinds = ["sliding_attention"] * 5 + ["full_attention"]
    config = row("google/gemma-3-1b-it") | {"layer_types": (kinds * 5)[:26]}
    assert shape_of_config("gemma", config).window_layers == 22


def test_the_first_qwen_was_trained_on_its_sequence_length() -> None:
    assert shape_of_config("Qwen", row("Qwen/Qwen-7B")).context == 8192


def test_latent_attention_keeps_576_numbers_of_a_token() -> None:
    assert shape_of_config("V3", row("deepseek-ai/DeepSeek-V3")).cache_elements == 576


def test_the_decoder_of_a_model_of_pictures_is_read_with_the_defaults_of_its_type() -> None:
    """As published for Gemma 3 4B: heads, words and context are left to the defaults."""
    text = {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34}
    config = {"model_type": "gemma3", "text_config": text | {"sliding_window": 1024}, "vision_config": {"hidden_size": 1152}}
    found = shape_of_config("gemma", config)
    assert found == shape_of_config("gemma", row("google/gemma-3-4b-it"))


# ---------------------------------------------------------------- input from strangers


@pytest.mark.parametrize("key", sorted(set(LLAMA) - {"model_type", "num_key_value_heads"}))
@pytest.mark.parametrize(
    "value", ["4096", -1, 0, 2**40, 10**5000, 1.5, True, [1], {}, float("nan")], ids=lambda value: type(value).__name__
)
def test_an_absurd_number_is_refused_by_its_name(key: str, value: object) -> None:
    with pytest.raises(BadValue) as caught:
        shape_of_config("mine", LLAMA | {key: value})
    assert key in caught.value.message
    assert caught.value.hint
    assert len(caught.value.message) < 200


@pytest.mark.parametrize("key", sorted(set(LLAMA) - {"model_type", "num_key_value_heads"}))
def test_a_missing_number_is_named(key: str) -> None:
    for config in (LLAMA | {key: None}, {name: value for name, value in LLAMA.items() if name != key}):
        with pytest.raises(BadValue, match=key):
            shape_of_config("mine", config)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_key_value_heads": 3}, "is inconsistent"),
        ({"num_attention_heads": 5, "num_key_value_heads": 5}, "is inconsistent"),
        ({"tie_word_embeddings": "yes"}, "true or false"),
        ({"model_type": 7}, "must be a string"),
        ({"model_type": "lama"}, "unknown model type"),
        ({"model_type": ""}, "has no 'model_type'"),
        ({"model_type": "nemotron_h"}, "fixed-size state"),
        ({"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 3}, "3 experts are chosen out of 2"),
        ({"model_type": "opt", "ffn_dim": 128, "word_embed_proj_dim": 32}, "opt-350m"),
        ({"model_type": "gpt_neo", "attention_types": [3]}, "attention_types"),
        ({"model_type": "some_vision", "text_config": [1]}, "text_config"),
        ({"model_type": "qwen3", "layer_types": "all"}, "layer_types"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadValue, match=said):
        shape_of_config("mine", LLAMA | change)


def test_a_misspelt_type_is_guessed() -> None:
    with pytest.raises(BadValue) as caught:
        shape_of_config("mine", LLAMA | {"model_type": "lama"})
    assert "`llama`" in caught.value.hint
    assert "mixtral" in caught.value.known


@pytest.mark.filterwarnings("ignore")  # of transformers
def test_tables_are_tied_by_default_where_transformers_ties_them() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from gpuwise.workload.capture.huggingface.source import _transformers

    auto = _transformers().AutoConfig
    for kind in model_types():
        if kind == "qwen":
            continue  # not a type of transformers
        default = auto.for_model(kind)
        config = LLAMA | LIKE.get(kind, {}) | {"model_type": kind}
        assert shape_of_config(kind, config).tied is bool(default.tie_word_embeddings), kind


_EXPERTS = {"num_experts_per_tok": 1, "moe_intermediate_size": 8}
_LATENT = {"qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "kv_lora_rank": 8}
LIKE: dict[str, dict[str, Any]] = {
    "opt": {"ffn_dim": 128},
    "mixtral": {"num_local_experts": 2, "num_experts_per_tok": 1},
    "gpt_oss": {"num_local_experts": 2, "num_experts_per_tok": 1},
    "llama4_text": {"num_local_experts": 2, "intermediate_size_mlp": 8},
    "qwen2_moe": {"num_experts": 2} | _EXPERTS,
    "qwen3_moe": {"num_experts": 2} | _EXPERTS,
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
}
