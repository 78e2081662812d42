"""What tuned and generating language models need, counted from their shape."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwise.evidence.memory_language import language_models
from gpuwise.step.memory.language import (
    WEIGHT_BYTES,
    Adaptation,
    DecoderShape,
    adaptation_memory,
    generation_memory,
    shape_from_config,
)
from gpuwise.workload.capture.huggingface import configs as huggingface_configs
from gpuwise.workload.capture.huggingface.known import known_parameters, table

TINY = DecoderShape(hidden=8, layers=2, heads=2, kv_heads=1, head_dim=4, intermediate=16, vocabulary=32)
KNOWN = {model.repo: model.shape for model in language_models()}


def test_parameters_are_counted_by_hand() -> None:
    block = 8 * (8 + 4 + 4) + 8 * 8 + 3 * 8 * 16
    assert TINY.block_parameters == 2 * block
    assert TINY.table_parameters == 32 * 8
    assert TINY.norm_parameters == (2 * 2 + 1) * 8


@pytest.mark.parametrize("repo", sorted(set(KNOWN) & set(table())))
def test_shapes_have_the_published_number_of_parameters(repo: str) -> None:
    shape = KNOWN[repo]
    tied = huggingface_configs.find_config(f"hf:{repo}").config.get("tie_word_embeddings", "gemma" in repo)
    tables = shape.table_parameters * (1 if tied else 2)
    counted = shape.block_parameters + shape.norm_parameters + tables
    assert counted == pytest.approx(known_parameters()[repo], rel=0.002)  # biases are not counted


@pytest.mark.parametrize("repo", sorted(set(KNOWN) & set(table())))
def test_shapes_agree_with_the_configurations_of_hugging_face(repo: str) -> None:
    assert shape_from_config(huggingface_configs.find_config(f"hf:{repo}").config) == KNOWN[repo]


def test_what_is_no_decoder_of_ours_has_no_shape() -> None:
    assert shape_from_config(huggingface_configs.find_config("hf:bert-base-uncased").config) is None


def test_full_tuning_holds_eight_bytes_a_weight_and_what_backward_needs() -> None:
    found = adaptation_memory(TINY, Adaptation(method="full"), batch=1, seq=1)
    weights = TINY.block_parameters + 2 * TINY.table_parameters + TINY.norm_parameters
    assert found.weight_bytes + found.gradient_bytes + found.optimizer_bytes == 8 * weights
    assert found.workspace_bytes == 0


def test_lora_trains_little_and_holds_the_weights_as_they_are() -> None:
    found = adaptation_memory(TINY, Adaptation(method="lora", rank=2), batch=1, seq=1)
    trained = 2 * 2 * (2 * 8 + 8 + 4)
    assert found.gradient_bytes == 2 * trained
    assert found.optimizer_bytes == 4 * trained
    assert found.weight_bytes - 2 * trained == generation_memory(TINY).weight_bytes


def test_a_token_of_a_gated_block_keeps_these_tensors() -> None:
    one, two = (adaptation_memory(TINY, Adaptation(method="adapter"), batch=1, seq=seq).activation_bytes for seq in (1, 2))
    norms, attention, mlp = 2 * 4 * 8, 2 * (8 + 4 + 4) + 2 * 4 * 8, 2 * 3 * 16
    assert two - one == one == 2 * (norms + attention + mlp) + 8 * 32 + 2 * 8


def test_four_bits_hold_a_scale_for_each_64_and_double_quantising_less() -> None:
    assert WEIGHT_BYTES["nf4"] == 0.5625
    assert WEIGHT_BYTES["nf4-dq"] == pytest.approx(0.5159, abs=1e-4)
    sizes = [generation_memory(KNOWN["meta-llama/Llama-2-7b-hf"], weights).weight_bytes for weights in ("bf16", "nf4", "nf4-dq")]
    assert sizes == sorted(sizes, reverse=True)


def test_split_layers_share_the_blocks_and_the_cache() -> None:
    alone, split = (
        generation_memory(KNOWN["meta-llama/Llama-2-70b-hf"], split=how, devices=devices)
        for how, devices in (("", 1), ("layers", 4))
    )
    assert split.kv_cache_bytes == alone.kv_cache_bytes / 4
    assert alone.weight_bytes / 4 < split.weight_bytes < alone.weight_bytes / 3.8


METHODS = st.sampled_from(("full", "lora", "adapter", "adapter_v2"))


@given(METHODS, st.sampled_from(sorted(WEIGHT_BYTES)), st.booleans(), st.integers(1, 64), st.integers(1, 4096))
def test_more_tokens_and_more_batch_are_never_less(method: str, weights: str, everywhere: bool, batch: int, seq: int) -> None:
    how = Adaptation(method=method, weights=weights, everywhere=everywhere)
    here = adaptation_memory(TINY, how, batch=batch, seq=seq).allocated_bytes
    assert adaptation_memory(TINY, how, batch=batch + 1, seq=seq).allocated_bytes > here
    assert adaptation_memory(TINY, how, batch=batch, seq=seq + 1).allocated_bytes > here


@pytest.mark.parametrize(("kv_heads", "kib"), [(32, 512), (8, 128)])
def test_a_token_in_the_cache_has_a_key_and_a_value_in_every_layer(kv_heads: int, kib: int) -> None:
    """Half a MiB a token in a model of Llama 2's 7B shape; a quarter of it with a quarter of the heads (Llama 3, 8B)."""
    shape = DecoderShape(hidden=4096, layers=32, heads=32, kv_heads=kv_heads, head_dim=128, intermediate=11008, vocabulary=32000)
    few, more = (generation_memory(shape, batch=2, tokens=tokens).kv_cache_bytes for tokens in (100, 101))
    assert more - few == 2 * kib * 1024
    assert generation_memory(shape, batch=2, tokens=100, split="tensor", devices=4).kv_cache_bytes == few / 4
