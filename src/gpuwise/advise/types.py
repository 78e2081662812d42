"""What advice is made of: the choices behind a way of running a model, and what each way needs and costs."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.step.memory import Memory

__all__ = ["EFFECTS", "Choices", "DoesNotApply", "Rung"]

# What a remedy asks of its user, from least to most: nothing but time; other rounding; rounding that may be felt; another way of
# training; other or more GPUs; another task.
EFFECTS = ("same", "numerics", "quality", "method", "hardware", "task")


class DoesNotApply(Exception):
    """A remedy that would change nothing here, or cannot be had; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """How a model is run. The first group is asked of the source of the model, the second is made from what it gives.

    `fused_attention` is what the software has for attention that is one op; `folded_attention` makes one op of what a model
    writes out. `checkpoint` is how deep the recomputed blocks lie and how many there are, counted from the first.
    """

    precision: str
    optimizer: str = ""
    implementation: str = "foreach"
    channels_last: bool = False
    seq: int | None = None
    image: int | None = None

    adapters: str = ""
    weights: str = ""
    fused_attention: bool = True
    folded_attention: bool = False
    checkpoint: tuple[int, int] = (0, 0)
    accumulate: int = 1
    compiled: bool = False
    offload: bool = False
    gpu_count: int = 1
    zero_stage: int = 0
    split: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One remedy, or one step of a ladder, at the batch asked for.

    `cost` is GPU-seconds for the same samples over those of now: above 1 slower, below 1 faster. `how` is what to write or set.
    """

    name: str
    title: str
    effect: str
    how: str
    gpu: str
    gpu_count: int
    batch: int
    memory: Memory
    fits: bool
    max_batch: int
    step_s: float
    cost: float
