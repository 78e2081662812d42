"""What engines do differently: how GGUF files pack gpt-oss, how kernels start on Apple's chips, how prompts are pipelined."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpuwise.core.units import GIB
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_host
from gpuwise.step.memory.generation import held_memory
from gpuwise.step.time.engines import engine_stack, engines, prompt_gain, weights_in
from gpuwise.step.time.simulate import simulate
from gpuwise.step.types import Setting
from gpuwise.workload.language.build import generation_pass
from gpuwise.workload.language.find import find_shape
from gpuwise.workload.language.weight_formats import FORMATS

GPUS = [load_catalog().find(name).gpu for name in ("RTX 4090", "M2 Ultra")]
LLAMA_CPP = engines()["llama.cpp"]


@pytest.mark.parametrize(("model", "file_gib"), [("gpt-oss-20b", 11.27), ("gpt-oss-120b", 59.02)])
def test_gguf_files_of_gpt_oss_have_their_published_size(model: str, file_gib: float) -> None:
    shape = find_shape(model)
    packed, plain = (
        held_memory(
            shape, weights_in(engines()[name], "mxfp4"), engines()[name], cache="fp16", users=1, prompt=1, context=2
        ).weight_bytes
        for name in ("llama.cpp", "vllm")
    )
    assert packed / GIB == pytest.approx(file_gib, rel=0.03)
    assert plain > packed


def _decode_s(weights: str, **constants: float) -> np.ndarray:
    workload = generation_pass(find_shape("llama-3-8b"), "decode", weights=FORMATS[weights])
    stack = engine_stack(LLAMA_CPP, "decode", FORMATS[weights].family)
    setting = Setting(stack=replace(stack, constants={**stack.constants, **constants}), host=find_host("desktop"))
    return np.asarray(simulate(workload, GPUS, setting, batch=1, seq=512).seconds[0])


def test_kernels_start_later_on_apple_only() -> None:
    soon, late = (_decode_s("q4_k_m", **{"start.apple": factor}) for factor in (1.0, 3.0))
    assert late[0] == soon[0]
    assert late[1] > soon[1]


def test_only_packed_weights_are_unpacked_more_slowly_by_other_makers() -> None:
    for weights, slower in (("fp16", False), ("q4_k_m", True)):
        fast, slow = (_decode_s(weights, **{"linear.apple": factor}) for factor in (1.0, 0.3))
        assert slow[0] == fast[0]
        assert (slow[1] > 1.2 * fast[1]) == slower


def test_pipelined_prompts_gain_at_most_the_number_of_gpus() -> None:
    gains = [prompt_gain(LLAMA_CPP, 8192, 4, power) for power in (0.3, 0.6, 1.0)]
    assert gains == sorted(gains)
    assert 1.0 < gains[0] < gains[-1] < 4.0
    assert prompt_gain(LLAMA_CPP, 512, 4) == 1.0  # a single chunk
