"""The types for advice: what each way of running a model needs and costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gpuwise.advise.jobs import JobPace
from gpuwise.step.memory.peak import Memory

__all__ = ["EFFECTS", "Divides", "Rung"]

# What a remedy changes for its user, from least to most: only time; rounding; rounding that may affect quality; the training
# method; the hardware; the task.
EFFECTS = ("same", "numerics", "quality", "method", "hardware", "task")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One remedy, or one step of a ladder, at the requested batch.

    `cost` is GPU-seconds for the same samples relative to now: above 1 slower, below 1 faster. `how` is what to write or set.
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


class Divides(Protocol):
    """A function that predicts how fast a job runs on several of one GPU."""

    def shared(self, paces: Sequence[JobPace], gpu_count: int) -> dict[str, JobPace]: ...
