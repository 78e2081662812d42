"""Text over GPUs of several kinds, experts on the CPU, and layers in two machines."""

from __future__ import annotations

import pytest

import gpuwise
from gpuwise.core.errors import BadValue

ASKED = {"weights": "q4_k_m"}


def _rate(gpu: str, model: str = "qwen3-32b", **options: object) -> float:
    told = gpuwise.predict(model, gpu=gpu, **{**ASKED, **options}).results[0]
    found: float = told.generation.tokens_per_s
    return found


def test_two_cards_of_one_kind_are_the_same_as_a_mixed_set_of_them() -> None:
    assert _rate("RTX 3090 + RTX 3090") == pytest.approx(_rate("2x RTX 3090"), rel=1e-6)


def test_a_mixed_set_is_between_its_cards_and_holds_what_one_does_not() -> None:
    slow, fast, both = (_rate(gpu, "llama-3-8b") for gpu in ("RTX 3060 12GB", "RTX 3090", "RTX 3090 + RTX 3060 12GB"))
    assert slow < both < fast
    alone, together = (gpuwise.predict("llama-3-70b", gpu=gpu, **ASKED).results[0] for gpu in ("RTX 3090", "RTX 3090 + RTX 4090"))
    assert alone.generation.offloaded_fraction > 0
    assert together.fits
    assert not together.generation.offloaded_fraction
    assert (together.gpu.name, together.gpu_count) == ("RTX 3090 + RTX 4090", 2)


def test_layers_are_divided_by_memory() -> None:
    shown = gpuwise.predict("qwen3-32b", gpu="RTX 3090 + RTX 3060 12GB", **ASKED)
    (note,) = [note for note in shown.assumptions if note.name == "layers"]
    assert note.value == "43 on the RTX 3090 and 21 on the RTX 3060 12GB"
    assert gpuwise.fit("qwen3-32b", gpu="RTX 3090 + RTX 3060 12GB", **ASKED).fits


def test_sets_that_cannot_share_a_model_are_refused() -> None:
    with pytest.raises(BadValue, match="divides every matrix equally"):
        gpuwise.predict("qwen3-8b", gpu="RTX 3090 + RTX 4090", engine="lmdeploy")
    with pytest.raises(BadValue, match="cannot be combined with other GPUs"):
        gpuwise.predict("qwen3-8b", gpu=["RTX 3090 + RTX 4090", "RTX 4080"])
    with pytest.raises(BadValue, match="can run on different GPUs at once"):
        gpuwise.predict("resnet50", gpu="RTX 3090 + RTX 4090")


def test_experts_on_the_cpu_leave_attention_and_its_cache_on_the_gpu() -> None:
    told = gpuwise.predict("gpt-oss-120b", gpu="RTX 4090").results[0]
    assert told.generation.offloads_experts
    assert 0 < told.generation.offloaded_fraction < 1
    long = gpuwise.predict("gpt-oss-120b", gpu="RTX 4090", prompt=32_000).results[0]
    assert long.memory.kv_cache_bytes > 10 * told.memory.kv_cache_bytes
    assert long.generation.offloaded_fraction > told.generation.offloaded_fraction
    assert "experts of" in " ".join(note.value for note in told.assumptions)


def test_a_dense_model_on_the_cpu_is_slower_than_a_mixture_of_as_many_weights() -> None:
    dense, sparse = (gpuwise.predict(name, gpu="RTX 3060 12GB", **ASKED).results[0] for name in ("qwen3-32b", "qwen3-30b-a3b"))
    assert dense.generation.offloaded_fraction > 0 < sparse.generation.offloaded_fraction
    assert sparse.generation.tokens_per_s > 3 * dense.generation.tokens_per_s


def test_a_named_link_between_machines_adds_its_hops() -> None:
    near, far = (_rate("2x RTX 3090", "llama-3-70b", **more) for more in ({}, {"link": "Ethernet 1 Gbit"}))
    assert 0.9 * near < far < near
