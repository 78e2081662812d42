"""What is fitted for an engine: the names of its constants, their priors, and the resulting software.

bandwidth, rate       how well its kernels use memory and the matrix engine, relative to the libraries used in the main fit
bytes, flops a clock  the most that a unit moves and computes per clock, for each family of formats with its own kernels
cache, prompt         the same for attention in decoding and in reading a prompt, by version
experts               how well it multiplies the matrices of experts, relative to others
expand                how often keys and values are copied for all heads in decoding, for an engine that does so
apple_start           how much longer Apple's GPUs take to start a kernel, after the one that it waits for, than NVIDIA's
pipelined             how well chunks of a prompt are pipelined through layers on several GPUs: 1 is ideal, 0 is not at all
layer, step, start    seconds of the host for a layer and a step, and of the GPU for a kernel, by version
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwise.evidence.generation import GenerationRow
from gpuwise.kernels.times import load_constants
from gpuwise.step.time.engines import PIPELINED, Engine
from gpuwise.step.types import Stack

from .kernels import KernelSet

Array = NDArray[np.float64]

# The middle of each constant and how far it may lie from there, as a logarithm. What engines share is drawn in closely.
_PRIORS = {
    "bandwidth": (1.12, 0.1),
    "rate": (0.9, 0.2),
    "cache": (1.3, 0.5),
    "prompt": (0.8, 0.5),
    "expand": (5.0, 0.4),
    "experts": (0.5, 0.5),
    "layer": (3e-5, 1.5),
    "step": (4e-4, 1.0),
    "ecc": (0.92, 0.05),
    "apple": (0.8, 0.3),
    "amd": (0.8, 0.3),
    "intel": (0.6, 0.4),
    "start": (2.5e-6, 0.4),
    "apple_start": (3.0, 0.4),
    "pipelined": (0.7, 0.3),
    "bytes": (7.0, 0.6),
    "flops": (1500.0, 0.7),
}
_BY_ENGINE, _BY_VERSION, _BY_FAMILY = (
    ("bandwidth", "rate", "experts", "ecc", "apple", "amd", "intel", "apple_start", "pipelined"),
    ("cache", "prompt", "layer", "step", "start"),
    ("bytes", "flops"),
)
# Seconds of the host for a layer where every kernel is issued from Python, by engine and version. transformers: between 0.9 ms
# (21 to 25 ms a token for models of 24 to 28 layers on an A100, whatever their size) and 1.2 ms (25.5 tokens/s for Llama 2 7B,
# pytorch.org/blog/accelerating-generative-ai-2). vLLM before 0.2.6 (December 2023) had no CUDA graphs: about a dozen kernels and,
# on several GPUs, two sums for each layer, at some 30 µs each.
_EAGER = {"transformers": 1e-3, "vllm 2023": 4e-4}
# Seconds to start a kernel that waits for another in versions without CUDA graphs: a plain launch takes twice as long.
_LAUNCHED = dict.fromkeys(("llama.cpp 2024", "vllm 2023", "exllama 1", "transformers"), 5e-6)
# Bytes of packed weights that a unit moves in a clock, where kernels keep several loads in flight (Marlin and its like).
_IN_FLIGHT = {"vllm": 12.0, "tensorrt-llm": 12.0, "lmdeploy": 12.0}
_EXPANDS = ("transformers",)  # keys and values are repeated for every head that shares them, before attention reads them
_NARROW = ("llama.cpp", "exllama")  # products add up in fp16, and packed weights are multiplied in int8 where that is faster
_UNFUSED = {("llama.cpp", "2024")}  # attention written out: before its flash attention was the default
_OWN_KERNELS = ("llama.cpp", "mlc", "exllama")  # for weights in 16 bits too; other engines call the libraries of the GPU's maker
_LIBRARY_FAMILIES = ("plain", "fp8")  # formats that those libraries multiply


@dataclass(frozen=True)
class Problem:
    """The rows of one engine, and the names of what is fitted for it."""

    engine: str
    rows: tuple[GenerationRow, ...]
    kernels: tuple[KernelSet, ...]
    names: tuple[str, ...]

    @property
    def middle(self) -> Array:
        return np.array([math.log(self._middle(*name.partition(":")[::2])) for name in self.names])

    def _middle(self, name: str, of: str) -> float:
        version = f"{self.engine} {of}".strip()
        own = {"layer": _EAGER.get(version), "start": _LAUNCHED.get(version), "bytes": _IN_FLIGHT.get(self.engine)}
        return own.get(name) or _PRIORS[name][0]

    @property
    def spread(self) -> Array:
        return np.array([_PRIORS[name.split(":")[0]][1] for name in self.names])

    @property
    def newest(self) -> str:
        """The version that its kernels were timed in."""
        return min(name.partition(":")[2] for name in self.names if name.startswith("layer:"))

    @property
    def families(self) -> list[str]:
        return sorted({row.weights.family for row in self.rows} | {one.family for one in self.kernels})


def problem_of(rows: Sequence[GenerationRow], kernels: Sequence[KernelSet]) -> Problem:
    """What an engine with these rows has to be fitted."""
    engine, versions = rows[0].engine.name, sorted({row.version for row in rows})
    known = Problem(engine, tuple(rows), tuple(kernels), ())
    capped = [family for family in known.families if engine in _OWN_KERNELS or family not in _LIBRARY_FAMILIES]
    names = [
        *_BY_ENGINE,
        *(["expand"] if engine in _EXPANDS else []),
        *(f"{name}:{version}" for name in _BY_VERSION for version in versions),
        *(f"{name}:{family}" for name in _BY_FAMILY for family in capped),
    ]
    return Problem(engine, tuple(rows), tuple(kernels), tuple(names))


def touches(name: str, row: GenerationRow) -> bool:
    """Whether a constant has a part in the time of this row."""
    name, _, of = name.partition(":")
    if name in _BY_VERSION:
        return row.version == of
    if name in _BY_FAMILY:
        return row.weights.family == of
    asked = {
        "experts": bool(row.shape.experts),
        "apple": row.gpu.vendor == "Apple",
        "apple_start": row.gpu.vendor == "Apple",
        "amd": row.gpu.vendor == "AMD",
        "intel": row.gpu.vendor == "Intel",
        "pipelined": row.split == "layers" and row.gpu_count > 1,
    }
    return asked.get(name, True)


def touches_kernel(name: str, one: KernelSet, newest: str) -> bool:
    """Whether a constant has a part in the time of these kernels, timed in the newest version."""
    name, _, of = name.partition(":")
    if name in _BY_FAMILY:
        return one.family == of and one.kind == "linear"
    return (name not in _BY_VERSION or of == newest) and name not in ("pipelined", "layer", "step")


def stack_maker(values: Mapping[str, float]) -> Callable[[Engine, str, str, str], Stack]:
    """Stacks with these constants."""
    known = load_constants()

    def stack_of(engine: Engine, phase: str, family: str, version: str) -> Stack:
        return Stack(
            name=engine.name,
            framework=engine.name,
            version=(0, 0),
            how="graph",
            constants={**common_constants(values, engine.name, version, known), **family_constants(values, family)},
            layer_s=values[f"layer:{version}"],
            step_s=values[f"step:{version}"],
            fused_attention=is_fused(engine.name, version),
        )

    return stack_of


def is_fused(engine: str, version: str) -> bool:
    """Whether a version of an engine has one kernel for attention."""
    return (engine, version) not in _UNFUSED


def common_constants(values: Mapping[str, float], engine: str, version: str, known: Mapping[str, float]) -> dict[str, float]:
    """Kernel constants of a version for all formats."""
    prompt = values[f"prompt:{version}"]
    return {
        "linear.bandwidth": values["bandwidth"],
        "linear.rate": values["rate"],
        "linear.narrow": float(engine in _NARROW),
        **{f"linear.{name}": values[name] for name in ("experts", "ecc", "apple", "amd", "intel")},
        "attention.cache": values[f"cache:{version}"],
        "attention.forward": known["attention.forward"] * prompt,
        "attention.score_bytes.forward": known["attention.score_bytes.forward"] / prompt,
        **({"attention.expand": values["expand"]} if "expand" in values else {}),
        "kernel.start_s": values[f"start:{version}"],
        "start.apple": values["apple_start"],
        PIPELINED: values["pipelined"],
    }


def family_constants(values: Mapping[str, float], family: str) -> dict[str, float]:
    """Kernel constants of a family of formats; none where libraries multiply them."""
    if f"bytes:{family}" not in values:
        return {}
    return {"linear.bytes_per_clock": values[f"bytes:{family}"], "linear.flops_per_clock": values[f"flops:{family}"]}
