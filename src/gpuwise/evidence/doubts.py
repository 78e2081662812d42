"""Generation speeds that cannot be what their row says: they break a physical limit, or their source counts something else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuwise.step.memory.generation import held_memory
from gpuwise.step.time.engines import Engine

if TYPE_CHECKING:
    from gpuwise.evidence.generation import GenerationRow

__all__ = ["asked_doubt", "speed_doubt"]

# (source and software as written, mode, why it cannot be compared)
_COUNTED = (
    (
        r"premAI-io/benchmarks.* \| .*TensorRT-LLM",
        r"decode",
        "tokens counted with the padding behind the answer (bench_tensorrtllm/bench.py divides the length of the output buffer)",
    ),
    (r".* \| .*GEMV", r"prefill", "a prompt processed with kernels made for decoding"),
)


def asked_doubt(cells: Mapping[str, str], engine: Engine, batch: int) -> str:
    """Return why what a row ran cannot be predicted; empty if it can."""
    said = f"{cells.get('origin', '')} | {cells['stack']}"
    for pattern, mode, reason in _COUNTED:
        if re.search(pattern, said) and cells["mode"] == mode:
            return reason
    if batch > 1 and "GEMV" in cells["stack"]:
        return "several sequences processed with kernels made for one"
    if engine.name == "transformers" and cells["quantisation"].lower() in ("int8", "8 bit", "8-bit"):
        return "8-bit weights from bitsandbytes, which multiplies outliers separately"
    return ""


def speed_doubt(row: GenerationRow) -> str:
    """Return why a decoding speed cannot be right; empty if it can."""
    held = held_memory(
        row.shape,
        row.weights,
        row.engine,
        cache=row.cache,
        users=row.passes[-1].batch,
        prompt=row.prompt,
        context=row.context,
    )
    if held.weight_bytes + held.cache_bytes > row.gpu_count * row.gpu.memory_bytes:
        return "keys and values that do not fit beside the weights, so some sequences waited"
    seconds = row.counted / row.value if row.unit == "tokens_per_s" else row.value * row.counted / 1e3
    read = 0.0 if row.shape.experts else row.shape.block_weights * row.weights.bytes_a_weight
    if read * row.passes[-1].times > seconds * row.gpu_count * row.gpu.memory_bytes_per_s:
        return "weights read faster than the memory allows"
    return ""
