"""A pass of a language model has the FLOPs, bytes and weights that its sizes say."""

from __future__ import annotations

import numpy as np
import pytest

from gpuwise.workload.language.build import generation_pass
from gpuwise.workload.language.find import find_shape
from gpuwise.workload.language.weight_formats import FORMATS, published_format
from gpuwise.workload.model.evaluate import call_counts, op_flops, peak_memory, product_values
from gpuwise.workload.transform.share import split

DENSE = ("llama-3-8b", "qwen2.5-0.5b", "gemma-3-27b")


@pytest.mark.parametrize("model", DENSE)
def test_the_products_of_a_token_are_twice_its_weights(model: str) -> None:
    shape = find_shape(model)
    step = generation_pass(shape, "decode", weights=FORMATS["fp16"], seq=2048)
    linear = [op.kind == "linear" for op in step.ops]
    flops = (op_flops(step, product_values(step, 1.0)) * call_counts(step).sum(axis=0))[0, linear].sum()
    assert flops == pytest.approx(2 * (shape.block_weights + shape.table_weights))


def test_experts_count_only_where_a_token_goes() -> None:
    shape = find_shape("qwen3-30b-a3b")
    step = generation_pass(shape, "decode", weights=FORMATS["fp16"], seq=512)
    products = [op.kind in ("linear", "experts") for op in step.ops]
    flops = (op_flops(step, product_values(step, 1.0)) * call_counts(step).sum(axis=0))[0, products].sum()
    assert flops == pytest.approx(2 * (shape.active_block_weights + shape.table_weights))
    held = peak_memory(step, 1.0).by_category["weight"]
    assert held == pytest.approx(2 * shape.parameters, rel=0.001)


def test_packed_weights_take_their_bits() -> None:
    shape = find_shape("llama-3-8b")
    plain, packed = (
        peak_memory(generation_pass(shape, "decode", weights=FORMATS[name])).by_category["weight"] for name in ("fp16", "q4_k_m")
    )
    assert plain == pytest.approx(2 * shape.parameters, rel=0.001)
    assert packed == pytest.approx(4.92e9, rel=0.01)  # the size of the published GGUF file


def test_the_cache_grows_with_batch_and_context_and_not_beyond_a_window() -> None:
    shape = find_shape("llama-3-8b")
    step = generation_pass(shape, "decode", weights=FORMATS["fp16"], seq=2048)
    cache = [peak_memory(step, batch, seq).by_category["input"] for batch, seq in ((1.0, 1000.0), (4.0, 1000.0), (1.0, 4000.0))]
    assert cache[0] == pytest.approx(1000 * 131_072, rel=0.001)
    assert cache[1] == pytest.approx(4 * cache[0], rel=0.001)
    assert cache[2] == pytest.approx(4 * cache[0], rel=0.001)
    windowed = find_shape("gemma-3-27b")
    long = generation_pass(windowed, "decode", weights=FORMATS["fp16"], seq=8192)
    expected = windowed.cached_tokens(8192) * windowed.cache_elements * 2
    assert peak_memory(long, 1.0, 8192.0).by_category["input"] == pytest.approx(expected, rel=0.02)


def test_latent_attention_keeps_little() -> None:
    shape = find_shape("deepseek-v3")
    step = generation_pass(shape, "decode", weights=FORMATS["fp8"], seq=1000)
    assert peak_memory(step, 1.0, 1000.0).by_category["input"] == pytest.approx(1000 * 61 * 576 * 2, rel=0.01)


def test_a_part_of_every_matrix_is_a_part_of_weights_and_work() -> None:
    step = generation_pass(find_shape("llama-3-8b"), "decode", weights=FORMATS["fp16"])
    half = split(step, 2, matrices=True)
    weights = [peak_memory(one, 1.0).by_category["weight"] for one in (step, half)]
    assert 0.5 < weights[1] / weights[0] < 0.6  # the tables stay whole
    flops = [float((op_flops(one, product_values(one, 1.0)) * call_counts(one).sum(axis=0)).sum()) for one in (step, half)]
    assert 0.5 <= flops[1] / flops[0] < 0.6


def test_every_call_names_as_many_buffers_as_its_op_names_tensors() -> None:
    for model in ("llama-3-8b", "qwen3-30b-a3b", "deepseek-v3", "gemma-3-27b"):
        for phase in ("prefill", "decode"):
            step = generation_pass(find_shape(model), phase, weights=FORMATS["q4_k_m"])
            assert all(len(call.reads) == len(step.ops[call.op].reads) for call in step.calls)
            assert all(len(call.writes) == len(step.ops[call.op].writes) for call in step.calls)
            assert np.isfinite(product_values(step, 2.0)).all()


def test_a_model_keeps_the_format_it_is_published_in() -> None:
    found = {name: published_format(name, find_shape(name)) for name in ("gpt-oss-20b", "deepseek-r1", "llama-3-8b")}
    assert found == {"gpt-oss-20b": "mxfp4", "deepseek-r1": "fp8", "llama-3-8b": ""}
    distilled = "deepseek-r1-distill-qwen-7b"
    assert published_format(distilled, find_shape(distilled)) == ""
