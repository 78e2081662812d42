"""How a job is run on a GPU: from the word in a task's table to choices that this GPU supports."""

from __future__ import annotations

from dataclasses import replace

from gpuwise.engine.choices import Choices
from gpuwise.hardware.types import Gpu, has_matrix_cores, supported

__all__ = ["SHORT_WAYS", "WAYS", "ways_on"]

# What each way means, for assumptions.
WAYS = {
    "usual": "mixed precision, or fp32 without matrix cores",
    "checkpoint": "mixed precision, activations of repeated blocks recomputed",
    "int8": "weights in 8 bits",
    "int4": "weights in 4 bits",
    "lora": "LoRA adapters, activations of repeated blocks recomputed where memory requires it",
    "qlora": "QLoRA: adapters on weights in 4 bits, activations of repeated blocks recomputed where memory requires it",
}
# The same behind a model's name in a sentence.
SHORT_WAYS = {
    "usual": "as usual",
    "checkpoint": "with recomputed activations",
    "int8": "with weights in 8 bits",
    "int4": "with weights in 4 bits",
    "lora": "with LoRA adapters",
    "qlora": "with QLoRA adapters on weights in 4 bits",
}
_ALL_BLOCKS = (1, 10_000)
_TRIED = {"train": ("amp", "amp-bf16", "tf32", "fp32"), "infer": ("fp16", "bf16", "tf32", "fp32")}


def ways_on(gpu: Gpu, way: str, *, mode: str, precision: str = "", optimizer: str = "") -> tuple[Choices, ...]:
    """The choices to try on this GPU, none where it cannot run them. A `precision` of `auto` tries all it has."""
    able = supported(gpu)
    wanted = [precision] if precision not in ("", "auto") else _TRIED[mode] if precision == "auto" else _usual(gpu, way, mode)
    base = [Choices(precision=name, optimizer=optimizer) for name in wanted if name in able]
    return tuple(changed for choices in base for changed in _choices_for(choices, way))


def _usual(gpu: Gpu, way: str, mode: str) -> tuple[str, ...]:
    """What people run here. Frozen and packed weights are computed with in a 16-bit type, whether it is faster or not."""
    if way in ("lora", "qlora", "int8", "int4"):
        return ("bf16",) if "bf16" in supported(gpu) else ("fp16",)
    if not has_matrix_cores(gpu):
        return ("fp32",)
    return ("amp",) if mode == "train" else ("fp16",)


def _choices_for(choices: Choices, way: str) -> tuple[Choices, ...]:
    if way in ("int8", "int4"):
        return (replace(choices, weights=way),)
    if way in ("lora", "qlora"):
        adapted = replace(choices, adapters=way)
        return adapted, replace(adapted, checkpoint=_ALL_BLOCKS)
    return (replace(choices, checkpoint=_ALL_BLOCKS) if way == "checkpoint" else choices,)
