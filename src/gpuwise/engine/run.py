"""How a step is run, whatever the model and the GPU: the software, the machine around it, and how many GPUs share the work.

What changes the ops of a step (precision, optimizer, adapters, compiling, ...) is in the workload; `ways.py` makes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.hardware.types import Gpu, Loader
from gpuwise.scale.cluster.shape import Cluster
from gpuwise.step.types import Setting

__all__ = ["Measured", "Run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A step that the user measured: on which GPU, how long, at how many samples (None: the batch the model is known at)."""

    gpu: Gpu
    step_s: float
    batch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`setting` is the software, the host and its links. `gpu_link` joins several GPUs, such as `PCIe 3.0 x8`; empty is what a
    usual machine has; a `cluster` says all of that itself.

    `accumulate` micro-batches make a step. Several GPUs divide samples alone, or also the optimizer's state (`zero_stage`), or
    the matrices (`splits_matrices`, inference only). `offloaded_bytes` cross the link to the host in each step, and `host_bytes`
    move in the host's own memory. `decoder` is what makes the loader's rate uncertain, where images are decoded.
    """

    setting: Setting
    gpu_count: int = 1
    gpu_link: str = ""
    cluster: Cluster | None = None
    power_limit_watts: float | None = None
    accumulate: int = 1
    zero_stage: int = 0
    splits_matrices: bool = False
    offloaded_bytes: float = 0.0
    host_bytes: float = 0.0
    display: bool = False
    decoder: Loader | None = None
    measured: tuple[Measured, ...] = ()
