"""Names of engines and weight formats as people write them in tables of measurements.

This file knows which version of an engine a name means. Versions differ in their kernels and in how kernels are started.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuwise.hardware.types import Gpu
from gpuwise.step.time.engines import Engine, engines

__all__ = ["Unusable", "engine_of", "format_of", "version_of"]

_ENGINES = (  # as people write them; the first match counts, with the version whose kernels it ran
    (r"ctransformers|ctranslate|onnx|optimum|deepspeed|lightning|autogptq|llama[.-]?cpp 2023", "", ""),
    (r"llama[.-]?cpp.* vulkan", "llama.cpp", "vulkan"),
    (r"llama[.-]?cpp 2024|llama[.-]?cpp$", "llama.cpp", "2024"),
    (r"llama[.-]?cpp", "llama.cpp", ""),
    (r"ollama", "ollama", ""),
    (r"vllm 2023", "vllm", "2023"),
    (r"vllm", "vllm", ""),
    (r"sglang", "sglang", ""),
    (r"lmdeploy|turbomind", "lmdeploy", ""),
    (r"exllama ?v2|exl2", "exllama", ""),
    (r"exllama", "exllama", "1"),
    (r"autoawq", "autoawq", ""),
    (r"mlc", "mlc", ""),
    (r"mlx", "mlx", ""),
    (r"torch\.compile|gpt-fast", "compile", ""),
    (r"tensorrt-llm|trt-llm", "tensorrt-llm", ""),
    (r"transformers", "transformers", ""),
)
_FORMATS = (
    (r"q([2-8])_?k[ -_]*(m|medium|s|small|l|large)?\b", ""),
    (r"q8_0", "q8_0"),
    (r"q4_0", "q4_0"),
    (r"mxfp4", "mxfp4"),
    (r"nvfp4", "nvfp4"),
    (r"int8|8[ -]?bit", "int8"),
    (r"fp8", "fp8"),
    (r"nf4", "nf4"),
    (r"awq|gptq|int4|4[ -]?bit|exl2 4", "int4"),
)
_K_QUANTS = {"2": "q2_k", "3": "q3_k_m", "4": "q4_k_m", "5": "q5_k_m", "6": "q6_k"}
_PLAIN = {"fp32": "fp32", "fp16": "fp16", "bf16": "bf16", "fp8": "fp8"}
# llama.cpp of 2024 started a pass as one CUDA graph only on a single NVIDIA GPU from Ampere on
# (github.com/ggml-org/llama.cpp/pull/6766). With layers on several GPUs, the graph changed at every pass, so kernels were started
# one by one until May 2025 (github.com/ggml-org/llama.cpp/pull/13814).
_WITHOUT_GRAPHS = {("llama.cpp", "2024"): "2024 without graphs"}
_OLDEST_WITH_GRAPHS = 8.0


class Unusable(Exception):
    """Why a row cannot be predicted."""


def engine_of(text: str) -> Engine:
    """Return the engine that this text names."""
    return engines()[_named(text)[0]]


def version_of(text: str, gpu: Gpu, gpu_count: int) -> str:
    """Return the version of the engine that this text names, as it runs on these GPUs."""
    name, version = _named(text)
    has_graphs = gpu_count == 1 and (gpu.vendor == "Apple" or _capability(gpu) >= _OLDEST_WITH_GRAPHS)
    return version if has_graphs else _WITHOUT_GRAPHS.get((name, version), version)


def _capability(gpu: Gpu) -> float:
    return float(gpu.architecture.capability) if gpu.vendor == "NVIDIA" else 0.0


def _named(text: str) -> tuple[str, str]:
    for pattern, name, version in _ENGINES:
        if re.search(pattern, text.lower()):
            if not name:
                break
            return name, version
    raise Unusable(f"unknown engine: {text}")


def format_of(cells: Mapping[str, str], engine: Engine) -> str:
    """Return the weight format of a row, as this engine would name it."""
    text = cells["quantisation"].lower()
    if not text:
        if cells["precision"] not in _PLAIN:
            raise Unusable(f"unknown precision: {cells['precision']}")
        return _PLAIN[cells["precision"]]
    for pattern, name in _FORMATS:
        found = re.search(pattern, text)
        if not found:
            continue
        name = name or _K_QUANTS.get(found[1], "")
        if engine.name == "llama.cpp" and name in ("int4", "int8"):  # GGUF in words of bits
            name = {"int4": "q4_k_m", "int8": "q8_0"}[name]
        if name:
            return name
    raise Unusable(f"unknown weight format: {cells['quantisation']}")
