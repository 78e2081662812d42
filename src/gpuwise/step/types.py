"""What a step is made of: the software that runs it, the machine around the GPU, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwise.hardware.types import Host

__all__ = ["BOUNDS", "Array", "ClassShare", "Setting", "Stack", "StepTimes"]

Array = NDArray[Any]

# What can hold a step up, in the order of the JSON contract.
BOUNDS = ("compute", "memory", "launch", "input", "copy", "communication")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A framework, its version and how it runs a step. `factor` times what the kernel models say is what was measured with it.

    An engine for language models has kernels of its own (`constants` in place of those of the libraries), and its own cost on the
    host: `layer_s` for every layer, beside the GPU's work, and `step_s` for every step, after it. `widths` are the ends of its
    range, measured over predicted.
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
    """How a step is run. `tf32` lets all fp32 products run as TF32 where the GPU has it, `tf32_convolutions` only
    convolutions, as PyTorch does by default. Rates of None are not looked at: data that is there in time, copies that hide
    behind the work."""

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
    """One step at several sizes on several GPUs, each by itself; every array has the shape (points, gpus).

    `lanes` are what the step waits for: the GPU, the host that issues work, the copies of inputs, the loader. `shares` say by
    what fraction the step would shrink if one thing were a little faster; they sum to 1. `flops` and `moved_bytes` are the same
    on every GPU: (points, 1). `op_s` has a row for each op: (points, ops, gpus).
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
        """What holds each step up most."""
        stacked = np.stack([self.shares[name] for name in BOUNDS])
        names: Array = np.array(BOUNDS)
        found: Array = names[np.argmax(stacked, axis=0)]
        return found
