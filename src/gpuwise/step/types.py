"""The types for a step: the software that runs it, the machine around the GPU, and the predicted times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwise.hardware.types import Host

__all__ = ["BOUNDS", "Array", "ClassShare", "Setting", "Stack", "StepTimes"]

Array = NDArray[Any]

# What can limit a step, in the order of the JSON contract.
BOUNDS = ("compute", "memory", "launch", "input", "copy", "communication")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A framework, its version and how it runs a step. Measured times are `factor` times those of the kernel models.

    An engine for language models has its own kernels (`constants` replaces the libraries' constants) and its own cost on the
    host: `layer_s` for every layer, in parallel with the GPU, and `step_s` for every step, after the GPU's work. `widths` are the
    ends of its range, as measured over predicted time.
    """

    name: str
    framework: str
    version: tuple[int, int]
    how: str
    factor: float = 1.0
    rows: int = 0
    fused_attention: bool = True
    host_factor: float = 1.0
    constants: Mapping[str, float] = field(default_factory=dict, hash=False)
    layer_s: float | None = None
    step_s: float = 0.0
    widths: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How a step is run. `tf32` lets all fp32 products run as TF32 if the GPU supports it; `tf32_convolutions` lets only
    convolutions do so, as PyTorch does by default. A rate of None is ignored: data arrives in time, and copies overlap with the
    work.
    """

    stack: Stack
    host: Host
    link_bytes_per_s: float | None = None
    loader_samples_per_s: float | None = None
    tf32: bool = False
    tf32_convolutions: bool = False
    nhwc: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassShare:
    """All ops of one kind on every GPU at every size: shape (points, gpus)."""

    kind: str
    count: int
    seconds: Array
    compute_s: Array
    flops: Array
    moved_bytes: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class StepTimes:
    """One step at several sizes on several GPUs, each on its own; every array has the shape (points, gpus).

    `lanes` are the times the step can wait for: the GPU, the host that launches work, the copies of inputs, and the loader.
    `shares` are the fractions by which the step would shrink if one resource were slightly faster; they sum to 1. `flops` and
    `moved_bytes` are the same on every GPU: (points, 1). `op_s` has a row for each op: (points, ops, gpus).
    """

    seconds: Array
    lanes: Mapping[str, Array]
    shares: Mapping[str, Array]
    classes: tuple[ClassShare, ...]
    flops: Array
    moved_bytes: Array
    op_s: Array

    @property
    def bound(self) -> Array:
        """What limits each step most."""
        stacked = np.stack([self.shares[name] for name in BOUNDS])
        names: Array = np.array(BOUNDS)
        found: Array = names[np.argmax(stacked, axis=0)]
        return found
