"""Generating text: what must hold whatever the constants of engines are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_host
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.generation import Serving, fits, generate, generation_memory, least_offloaded, most_users
from gpuwise.step.time.engines import engine_stack, engines, find_engine, fitted_engines, refusal
from gpuwise.workload.language.find import find_shape
from gpuwise.workload.language.weight_formats import FORMATS


def gpu(name: str) -> Gpu:
    return load_catalog().find(name).gpu


def serving(model: str = "llama-3-8b", engine: str = "vllm", weights: str = "fp16", **more: object) -> Serving:
    made = Serving(
        shape=find_shape(model), engine=find_engine(engine), weights=FORMATS[weights], host=find_host("desktop"), prompt=512
    )
    return replace(made, **more)  # type: ignore[arg-type]


CARDS = [gpu(name) for name in ("RTX 3090", "RTX 4090", "A100 SXM 80GB", "H100 SXM 80GB")]


@pytest.mark.parametrize("engine", sorted(engines()))
def test_no_engine_reads_weights_faster_than_memory_gives_them(engine: str) -> None:
    how = find_engine(engine)
    weights = FORMATS[how.default_format]
    for card in CARDS:
        if refusal(how, card) is not None:
            continue
        asked = serving(engine=engine, weights=how.default_format)
        least = find_shape("llama-3-8b").block_weights * weights.bytes_a_weight / card.memory_bytes_per_s
        assert float(generate(asked, [card]).decode_s[0]) > least


def test_more_users_write_more_in_all_and_less_each() -> None:
    found = [generate(serving(users=users), CARDS) for users in (1, 4, 16, 64)]
    whole = np.array([one.tokens_per_s for one in found])
    assert (np.diff(whole, axis=0) > 0).all()
    assert (np.diff([one.token_s for one in found], axis=0) > 0).all()


def test_a_longer_context_is_slower_and_holds_more() -> None:
    short, long = serving(), serving(prompt=6000)
    assert (generate(long, CARDS).decode_s > generate(short, CARDS).decode_s).all()
    assert generation_memory(long).cache_bytes > 7 * generation_memory(short).cache_bytes


def test_packed_weights_are_faster_and_smaller_in_the_same_engine() -> None:
    plain, packed = (serving(engine="llama.cpp", weights=name) for name in ("fp16", "q4_k_m"))
    assert (generate(packed, CARDS).decode_s < generate(plain, CARDS).decode_s).all()
    assert generation_memory(packed).weight_bytes < 0.35 * generation_memory(plain).weight_bytes


def test_two_gpus_hold_what_one_does_not() -> None:
    card = gpu("RTX 3090")
    alone = serving("llama-3-70b", "llama.cpp", "q4_k_m")
    assert not fits(alone, card)
    assert fits(replace(alone, gpu_count=2, split="layers"), card)


def test_a_matrix_divided_by_two_is_faster_than_one_and_slower_than_half() -> None:
    card = [gpu("A100 SXM 80GB")]
    one = float(generate(serving(), card).decode_s[0])
    two = float(generate(serving(gpu_count=2, split="tensor"), card).decode_s[0])
    assert one / 2 < two < one


def test_as_many_users_as_memory_holds_and_no_more() -> None:
    card, asked = gpu("RTX 4090"), serving()
    most = most_users(asked, card)
    assert most > 1
    assert fits(replace(asked, users=most), card)
    assert not fits(replace(asked, users=most + 1), card)


def test_the_fewest_layers_go_to_the_cpu() -> None:
    card, asked = gpu("RTX 4090"), serving("llama-3-70b", "llama.cpp", "q4_k_m")
    fraction = least_offloaded(asked, card)
    assert fraction is not None
    assert 0.2 < fraction < 0.8
    layers = round(fraction * asked.shape.layers)
    assert not fits(replace(asked, offloaded=(layers - 1) / asked.shape.layers), card)
    slower = generate(replace(asked, offloaded=fraction), [card]).decode_s[0]
    assert slower > generate(asked, [card]).decode_s[0]


def test_every_engine_has_constants_and_ranges() -> None:
    for engine in engines().values():
        assert engine.measured_as in fitted_engines()
        for phase in ("prefill", "decode"):
            stack = engine_stack(engine, phase, FORMATS[engine.default_format].family)
            assert stack.widths is not None
            assert stack.widths[0] < 1 < stack.widths[1]


@pytest.mark.parametrize(
    ("engine", "card", "weights", "cache"),
    [("vllm", "M2 Ultra 76-core", "", ""), ("vllm", "RTX 4090", "q4_k_m", ""), ("llama.cpp", "RTX 4090", "awq", "")],
)
def test_what_an_engine_cannot_run_is_refused_with_what_can(engine: str, card: str, weights: str, cache: str) -> None:
    fault = refusal(find_engine(engine), gpu(card), weights, cache)
    assert fault is not None
    assert fault.hint


def test_layers_on_the_cpu_read_their_cache_and_multiply_too() -> None:
    card = [gpu("RTX 4060")]
    half = serving(engine="llama.cpp", weights="q4_k_m", offloaded=0.5)
    short, long = (float(generate(replace(half, prompt=prompt), card).decode_s[0]) for prompt in (512, 7000))
    few, many = (float(generate(replace(half, users=users), card).tokens_per_s[0]) for users in (16, 512))
    assert long > 1.1 * short
    assert many < 2 * few  # the cores are busy: more users gain little


def test_no_host_holds_more_than_its_memory() -> None:
    card, asked = gpu("RTX 4090"), serving("deepseek-v3", "llama.cpp", "q4_k_m")
    assert least_offloaded(asked, card) is None


def test_a_latent_cache_is_repeated_on_every_gpu() -> None:
    latent, heads = (serving(model, weights="fp8", users=64) for model in ("deepseek-v3", "llama-3-70b"))
    whole, parts = (
        generation_memory(latent).cache_bytes,
        generation_memory(replace(latent, gpu_count=8, split="tensor")).cache_bytes,
    )
    assert parts == whole
    divided = generation_memory(replace(heads, gpu_count=8, split="tensor")).cache_bytes
    assert divided == pytest.approx(generation_memory(heads).cache_bytes / 8)
