"""What is fitted for an engine: the names of its constants, their priors, and the resulting software.

bandwidth, rate       how well its kernels use memory and the matrix engine, relative to the libraries used in the main fit
bytes, flops a clock  the most that a unit moves and computes per clock, for each family of formats with its own kernels
cache, prompt         the same for attention in decoding and in reading a prompt, by version
experts               how well it multiplies the matrices of experts, relative to others
expand                how often keys and values are copied for all heads in decoding, for an engine that does so
apple, amd, intel     how well GPUs of other makers read packed weights, relative to NVIDIA's, and with `_rate` how well they
                      multiply them
*_start               how much longer GPUs from Apple and Intel, and NVIDIA's systems on a chip, take to start a kernel
pipelined             how well chunks of a prompt are pipelined through layers on several GPUs: 1 is ideal, 0 is not at all
layer, start          seconds of the host for a layer, and of the GPU to start a kernel, by version
step                  seconds of the host for a step
*_of                  how much a version differs from the engine, if there are several: in its steps, its products and its
                      kernels for each maker. A version with few rows stays close to the others
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwise.evidence.generation import GenerationRow
from gpuwise.kernels.times import load_constants
from gpuwise.kernels.types import MAKERS
from gpuwise.step.time.engines import PIPELINED, Engine
from gpuwise.step.types import Stack

from .kernels import KernelSet

Array = NDArray[np.float64]

_OF = "_of"  # how much a version differs
# The prior of each constant and how far it may deviate, as a logarithm. Constants that engines share have narrow priors.
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
    **dict.fromkeys(("apple", "apple_rate", "amd", "amd_rate"), (0.8, 0.3)),
    **dict.fromkeys(("intel", "intel_rate"), (0.6, 0.4)),
    "start": (2.5e-6, 0.4),
    "apple_start": (3.0, 0.4),
    "intel_start": (3.0, 0.4),
    "soc_start": (1.5, 0.4),
    "pipelined": (0.7, 0.3),
    "bytes": (7.0, 0.6),
    "flops": (1500.0, 0.7),
    _OF: (1.0, 0.4),
}
_STARTS = ("apple_start", "intel_start", "soc_start")
_MAKERS = tuple(f"{maker}{suffix}" for maker in MAKERS for suffix in ("", "_rate"))
_SHARED = ("rate", "step", *_MAKERS)  # by all versions, each of which may differ somewhat
_BY_ENGINE, _BY_VERSION, _BY_FAMILY = (
    ("bandwidth", *_SHARED, "experts", "ecc", *_STARTS, "pipelined"),
    ("cache", "prompt", "layer", "start", *(f"{name}{_OF}" for name in _SHARED)),
    ("bytes", "flops"),
)
# Host seconds per layer if every kernel is issued from Python, by engine and version. transformers: between 0.9 ms (21 to 25 ms a
# token for models of 24 to 28 layers on an A100, whatever their size) and 1.2 ms (25.5 tokens/s for Llama 2 7B,
# pytorch.org/blog/accelerating-generative-ai-2). vLLM before 0.2.6 (December 2023) had no CUDA graphs: about a dozen kernels and,
# on several GPUs, two sums for each layer, at some 30 µs each.
_EAGER = {"transformers": 1e-3, "vllm 2023": 4e-4}
# Seconds to start a kernel that waits for another in versions without CUDA graphs. A plain launch takes twice as long.
_LAUNCHED = dict.fromkeys(("llama.cpp 2024 without graphs", "vllm 2023", "exllama 1", "transformers"), 5e-6)
# Bytes of packed weights that a unit moves per clock if kernels keep several loads in flight (Marlin and similar).
_IN_FLIGHT = {"vllm": 12.0, "tensorrt-llm": 12.0, "lmdeploy": 12.0}
_EXPANDS = ("transformers",)  # keys and values are repeated for every head that shares them, before attention reads them
_NARROW = ("llama.cpp", "exllama")  # products accumulate in fp16, and packed weights are multiplied in int8 if that is faster
# Versions that write attention out, from before flash attention was the default.
_UNFUSED = {("llama.cpp", "2024"), ("llama.cpp", "2024 without graphs")}
_OWN_KERNELS = ("llama.cpp", "mlc", "mlx", "exllama")  # for 16-bit weights as well; other engines call the GPU vendor's libraries
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
        return own.get(name) or _prior(name)[0]

    @property
    def spread(self) -> Array:
        return np.array([_prior(name.partition(":")[0])[1] for name in self.names])

    @property
    def newest(self) -> str:
        """The version that its kernels were timed in."""
        return min(name.partition(":")[2] for name in self.names if name.startswith("layer:"))

    @property
    def families(self) -> list[str]:
        return sorted({row.weights.family for row in self.rows} | {one.family for one in self.kernels})


def _prior(name: str) -> tuple[float, float]:
    return _PRIORS[_OF if name.endswith(_OF) else name]


def problem_of(rows: Sequence[GenerationRow], kernels: Sequence[KernelSet]) -> Problem:
    """The constants to fit for an engine with these rows."""
    engine, versions = rows[0].engine.name, sorted({row.version for row in rows})
    known = Problem(engine, tuple(rows), tuple(kernels), ())
    capped = [family for family in known.families if engine in _OWN_KERNELS or family not in _LIBRARY_FAMILIES]
    names = [
        *_BY_ENGINE,
        *(["expand"] if engine in _EXPANDS else []),
        *(f"{name}:{version}" for name in _BY_VERSION for version in versions if len(versions) > 1 or not name.endswith(_OF)),
        *(f"{name}:{family}" for name in _BY_FAMILY for family in capped),
    ]
    return Problem(engine, tuple(rows), tuple(kernels), tuple(names))


def touches(name: str, row: GenerationRow) -> bool:
    """Whether a constant affects the time of this row."""
    name, _, of = name.partition(":")
    if name in _BY_VERSION and row.version != of:
        return False
    name = name.removesuffix(_OF)
    if name in _BY_FAMILY:
        return row.weights.family == of
    asked = {
        "experts": bool(row.shape.experts),
        **{each: row.gpu.vendor.lower() == each.removesuffix("_rate") for each in _MAKERS},
        "apple_start": row.gpu.vendor == "Apple",
        "intel_start": row.gpu.vendor == "Intel",
        "soc_start": row.gpu.vendor == "NVIDIA" and row.gpu.segment in ("soc", "embedded"),
        "pipelined": row.split == "layers" and row.gpu_count > 1,
    }
    return asked.get(name, True)


def touches_kernel(name: str, one: KernelSet, newest: str) -> bool:
    """Whether a constant affects the time of these kernels, which were timed in the newest version."""
    name, _, of = name.partition(":")
    if name in _BY_FAMILY:
        return one.family == of and one.kind == "linear"
    return (name not in _BY_VERSION or of == newest) and name.removesuffix(_OF) not in ("pipelined", "layer", "step")


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
            step_s=shared(values, "step", version),
            fused_attention=is_fused(engine.name, version),
        )

    return stack_of


def shared(values: Mapping[str, float], name: str, version: str) -> float:
    """A constant that versions share, for one of them."""
    return values[name] * values.get(f"{name}{_OF}:{version}", 1.0)


def is_fused(engine: str, version: str) -> bool:
    """Whether a version of an engine has one kernel for attention."""
    return (engine, version) not in _UNFUSED


def common_constants(values: Mapping[str, float], engine: str, version: str, known: Mapping[str, float]) -> dict[str, float]:
    """Kernel constants of a version for all formats."""
    prompt = values[f"prompt:{version}"]
    return {
        "linear.bandwidth": values["bandwidth"],
        "linear.rate": shared(values, "rate", version),
        "linear.narrow": float(engine in _NARROW),
        **{f"linear.{name}": values[name] for name in ("experts", "ecc")},
        **{f"linear.{name}": shared(values, name, version) for name in _MAKERS},
        "attention.cache": values[f"cache:{version}"],
        "attention.forward": known["attention.forward"] * prompt,
        "attention.score_bytes.forward": known["attention.score_bytes.forward"] / prompt,
        **({"attention.expand": values["expand"]} if "expand" in values else {}),
        "kernel.start_s": values[f"start:{version}"],
        **{f"start.{name.removesuffix('_start')}": values[name] for name in _STARTS},
        PIPELINED: values["pipelined"],
    }


def family_constants(values: Mapping[str, float], family: str) -> dict[str, float]:
    """Kernel constants for a family of formats, or none if libraries multiply them."""
    if f"bytes:{family}" not in values:
        return {}
    return {"linear.bytes_per_clock": values[f"bytes:{family}"], "linear.flops_per_clock": values[f"flops:{family}"]}
