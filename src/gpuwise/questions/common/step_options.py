"""The options for a model on GPUs that `predict`, `fit` and others have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuwise.questions.common.options import (
    Accumulate,
    Batch,
    ChannelsLast,
    Checkpoint,
    Compile,
    Cpu,
    GpuCount,
    GpuNames,
    Image,
    Inputs,
    LoaderRate,
    Measured,
    Method,
    Mode,
    Model,
    Optimizer,
    Pcie,
    Phase,
    PowerLimit,
    Precision,
    RamSpeed,
    Rank,
    Seq,
    Stack,
    Targets,
    Timeout,
)

__all__ = ["StepOptions", "step_options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOptions:
    """A model, GPUs, and how a step is run."""

    model: Model = field(kw_only=False)
    gpu: GpuNames = ()
    gpus: GpuCount = 1
    batch: Batch = None
    seq: Seq = None
    image: Image = None
    precision: Precision = ""
    mode: Mode = ""
    optimizer: Optimizer = ""
    phase: Phase = ""
    compile: Compile = False
    channels_last: ChannelsLast = False
    accumulate: Accumulate = None
    checkpoint: Checkpoint = False
    method: Method = ""
    rank: Rank = None
    targets: Targets = ""
    input: Inputs = ()
    stack: Stack = ""
    cpu: Cpu = ""
    pcie: Pcie = ""
    ram_speed: RamSpeed = ""
    loader_samples_per_s: LoaderRate = None
    power_limit: PowerLimit = ""
    measured: Measured = ()
    timeout: Timeout = 120.0


_RENAMED = {"compiled": "compile", "inputs": "input", "timeout_s": "timeout"}


def step_options(given: Mapping[str, Any]) -> StepOptions:
    """From options by name; None is left out."""
    return StepOptions(**{_RENAMED.get(name, name): value for name, value in given.items() if value is not None})
