"""Formats of weights and caches that an engine or a GPU cannot run are refused with something that runs instead."""

from __future__ import annotations

import re
from typing import Any, get_type_hints

import pytest

import gpuwise
from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.language.options import LanguageOptions
from gpuwise.step.time.engines import engines, find_engine, refusal
from gpuwise.workload.language.weight_formats import CACHES, FORMATS

GPUS = ("GTX 1080", "V100 SXM 16GB", "T4", "RTX 3090", "RTX 4090", "RTX 5090", "H100 SXM 80GB", "RX 7900 XTX", "MI250X", "MI300X")
DEVICES = (*GPUS, "M2 Ultra", "Arc A770", "CPU")


def _gpu(name: str) -> Gpu:
    return load_catalog().find(name).gpu


@pytest.mark.parametrize("engine", engines())
@pytest.mark.parametrize("device", DEVICES)
def test_every_hint_names_something_that_runs(engine: str, device: str) -> None:
    gpu, one = _gpu(device), engines()[engine]
    for weights, cache in [(name, "") for name in FORMATS] + [("", name) for name in CACHES]:
        fault = refusal(one, gpu, weights, cache)
        if fault is None:
            continue
        assert fault.hint
        for other in re.findall(r"`--engine ([^`]+)`", fault.hint):
            assert refusal(find_engine(other), gpu, weights, cache) is None
        for other in re.findall(r"`--weights ([^`]+)`", fault.hint):
            assert refusal(one, gpu, other, cache) is None
        for other in re.findall(r"`--kv ([^`]+)`", fault.hint):
            assert refusal(one, gpu, weights, other) is None


@pytest.mark.parametrize("device", DEVICES)
def test_16_bits_run_on_every_device_in_some_engine(device: str) -> None:
    assert any(refusal(one, _gpu(device), "fp16") is None for one in engines().values())


def _devices(engine: str, weights: str = "", cache: str = "") -> set[str]:
    return {name for name in DEVICES if refusal(engines()[engine], _gpu(name), weights, cache) is None}


def test_fp8_needs_a_gpu_that_has_it_or_kernels_that_unpack_it() -> None:
    native = {"RTX 4090", "RTX 5090", "H100 SXM 80GB"}
    assert _devices("tensorrt-llm", "fp8") == native
    assert _devices("vllm", "fp8") == {*native, "RTX 3090", "MI300X"}
    assert _devices("tensorrt-llm", cache="fp8") == native
    assert _devices("llama.cpp", "fp8") == set()


def test_nvfp4_needs_blackwell() -> None:
    assert {name for engine in engines() for name in _devices(engine, "nvfp4")} == {"RTX 5090"}


def test_mlx_runs_on_apple_only_and_gguf_in_llama_cpp_everywhere() -> None:
    assert _devices("mlx", "int4") == {"M2 Ultra"}
    assert _devices("llama.cpp", "q4_k_m") == set(DEVICES)
    assert _devices("vllm", "q4_k_m") == set()
    assert "except experimentally" in str(refusal(engines()["vllm"], _gpu("RTX 3090"), "q4_k_m"))


def test_bf16_is_refused_by_vllm_before_ampere_and_slow_in_transformers() -> None:
    assert _devices("vllm", "bf16").isdisjoint({"GTX 1080", "V100 SXM 16GB", "T4"})
    half, brain = (
        gpuwise.predict("llama-3.2-1b", gpu="T4", engine="transformers", weights=name, prompt=2048).results[0]
        for name in ("fp16", "bf16")
    )
    assert brain.to_dict()["ttft_s"] > 1.5 * half.to_dict()["ttft_s"]
    assert any("no units for bf16" in note.effect for note in brain.assumptions)
    assert not any("no units" in note.effect for note in half.assumptions)


def test_fp8_weights_on_ampere_say_that_they_are_unpacked() -> None:
    found = gpuwise.predict("llama-3-8b", gpu="RTX 3090", weights="fp8").results[0]
    assert any("unpacks the weights to 16 bits" in note.effect for note in found.assumptions)


def test_a_cache_that_vllm_lacks_chooses_another_engine() -> None:
    found = gpuwise.predict("llama-3.2-1b", gpu="RTX 3090", kv="q8_0").results[0]
    assert any(note.code == "engine" and note.value == "llama.cpp" for note in found.assumptions)


BAD = ({"weights": "nvfp4"}, {"weights": "fp8", "engine": "vllm", "gpu": "T4"}, {"kv": "fp8", "engine": "vllm", "gpu": "T4"})
BAD_NUMBERS = ({"users": 0}, {"context": 9_000})


@pytest.mark.parametrize("options", [*BAD, *BAD_NUMBERS])
@pytest.mark.parametrize("question", ["predict", "fit", "cost", "compare"])
def test_every_question_refuses_alike(question: str, options: dict[str, object]) -> None:
    """The error names the values, and the hint what would work."""
    asked: dict[str, Any] = {"gpu": "RTX 3090", **options}
    if question == "compare":
        asked |= {"names": [asked.pop("gpu"), "RTX 2080 Ti"]}
    with pytest.raises(GpuwiseError) as fault:
        getattr(gpuwise, question)(model="llama-3-8b", **asked)
    assert fault.value.hint
    assert "option" not in str(fault.value)


@pytest.mark.parametrize("options", BAD_NUMBERS)
def test_which_refuses_numbers_that_no_gpu_can_answer(options: dict[str, object]) -> None:
    with pytest.raises(BadValue):
        gpuwise.which(model="llama-3-8b", budget=2000, **options)


def test_which_considers_only_gpus_that_run_the_format() -> None:
    found = gpuwise.which(model="llama-3-8b", weights="nvfp4", budget=3000, buy=True)
    assert found.options
    assert {option.gpu.architecture.generation for option in found.options} == {"blackwell"}


def test_the_help_lists_every_engine() -> None:
    named = re.search(
        r"generates the text: (.*)\.", get_type_hints(LanguageOptions, include_extras=True)["engine"].__metadata__[0].help
    )
    assert named is not None
    assert set(re.split(r", | or ", named[1])) == set(engines())
