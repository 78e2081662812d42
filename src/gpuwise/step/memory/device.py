"""What a GPU's memory holds beside tensors: the CUDA context, code and buffers of libraries, a desktop, reserves of frameworks.

Every figure stands in `data/memory.json` with its source; those marked fitted are written by `tools/fit_memory.py`.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from gpuwise.hardware.types import Gpu

__all__ = ["Constant", "MemoryData", "Range", "Step", "framework_bytes", "library_buffers", "memory_data", "preallocated_bytes"]

MIB = 2**20
_CAPABILITY = 8.0  # of a GPU that is not named
_JAX_FRACTION = 0.75  # docs.jax.dev, "GPU memory allocation"
_SMALL_DEVICE = 2 * 2**30
_SMALL_RESERVE = 225 * MIB  # TensorFlow's on devices below 2 GiB


class Constant(msgspec.Struct, frozen=True):
    value: float
    basis: str
    source: str


class Step(msgspec.Struct, frozen=True):
    """A figure from a compute capability on."""

    capability: float
    value: float


class Range(msgspec.Struct, frozen=True):
    """Quantiles of measured over predicted bytes."""

    probability: tuple[float, ...]
    ratio: tuple[float, ...]
    basis: str


class MemoryData(msgspec.Struct, frozen=True):
    """The file as it is written."""

    constants: dict[str, Constant]
    framework_bytes: tuple[Step, ...]
    framework_source: str
    ranges: dict[str, Range]

    def value(self, name: str) -> float:
        return self.constants[name].value


@cache
def memory_data() -> MemoryData:
    """The constants, shipped with the package."""
    return msgspec.json.decode((files("gpuwise.step") / "data" / "memory.json").read_bytes(), type=MemoryData)


def framework_bytes(gpu: Gpu | None = None, data: MemoryData | None = None) -> float:
    """CUDA context, loaded kernels and libraries of a training process, by the compute capability of the GPU."""
    data = data or memory_data()
    return _by_capability(gpu, data) * data.value("framework_factor")


def _by_capability(gpu: Gpu | None, data: MemoryData) -> float:
    mine = _capability(gpu)
    return [step.value for step in data.framework_bytes if step.capability <= mine][-1]


def _capability(gpu: Gpu | None) -> float:
    """Of other makers' GPUs little is published: they count as the GPU that is not named."""
    try:
        return float(gpu.architecture.capability) if gpu is not None else _CAPABILITY
    except ValueError:
        return _CAPABILITY


def library_buffers(gpu: Gpu | None, *, products: bool, training: bool) -> tuple[float, ...]:
    """What cuBLAS keeps through PyTorch's allocator: one workspace for each thread that calls it; backward has its own."""
    if not products:
        return ()
    name = "cublas_workspace_hopper_bytes" if _capability(gpu) >= 9 else "cublas_workspace_bytes"
    return (memory_data().value(name),) * (2 if training else 1)


def preallocated_bytes(gpu: Gpu, framework: str, fraction: float | None = None) -> float:
    """What TensorFlow or JAX takes at the start unless told otherwise."""
    whole = gpu.usable_memory_bytes
    if fraction is not None or framework == "jax":
        return whole * (_JAX_FRACTION if fraction is None else fraction)
    return whole - (_SMALL_RESERVE if whole < _SMALL_DEVICE else _by_capability(gpu, memory_data()))
