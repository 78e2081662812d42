"""The types for advice: what each way of running a model needs and costs."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.step.memory.peak import Memory

__all__ = ["EFFECTS", "Rung"]

# What a remedy changes for its user, from least to most: only time; rounding; rounding that may affect quality; the training
# method; the hardware; the task.
EFFECTS = ("same", "numerics", "quality", "method", "hardware", "task")


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
