"""Reported generation speeds that cannot be right: they exceed a physical limit, or their source counts something else."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuwise.hardware.types import Gpu
from gpuwise.step.memory.generation import GenerationMemory
from gpuwise.step.time.engines import Engine
from gpuwise.workload.language.shape import LanguageShape
from gpuwise.workload.language.weight_formats import Format

__all__ = ["asked_doubt", "speed_doubt"]

# (source and software as written, mode, reason why it cannot be compared)
_COUNTED = (
    (
        r"premAI-io/benchmarks.* \| .*TensorRT-LLM",
        r"decode",
        "tokens counted with the padding behind the answer (bench_tensorrtllm/bench.py divides the length of the output buffer)",
    ),
    (r".* \| .*GEMV", r"prefill", "a prompt processed with kernels made for decoding"),
)


def asked_doubt(cells: Mapping[str, str], engine: Engine, batch: int) -> str:
    """Return why a row cannot be predicted, or an empty string if it can."""
    said = f"{cells.get('origin', '')} | {cells['stack']}"
    for pattern, mode, reason in _COUNTED:
        if re.search(pattern, said) and cells["mode"] == mode:
            return reason
    if batch > 1 and "GEMV" in cells["stack"]:
        return "several sequences processed with kernels made for one"
    if engine.name == "transformers" and cells["quantisation"].lower() in ("int8", "8 bit", "8-bit"):
        return "8-bit weights from bitsandbytes, which multiplies outliers separately"
    return ""


def speed_doubt(
    shape: LanguageShape, weights: Format, gpu: Gpu, gpu_count: int, held: GenerationMemory, steps_per_s: float
) -> str:
    """Return why this many decoding steps per second cannot be right, or an empty string. `held` is the total over all GPUs."""
    if held.weight_bytes + held.cache_bytes > gpu_count * gpu.memory_bytes:
        return "keys and values that do not fit beside the weights, so some sequences waited"
    read = 0.0 if shape.experts else shape.block_weights * weights.bytes_a_weight
    if read * steps_per_s > gpu_count * gpu.memory_bytes_per_s:
        return "weights read faster than the memory allows"
    return ""
