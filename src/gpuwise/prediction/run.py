"""How a step is run, independent of the model and the GPU: the software, the machine, and how many GPUs share the work.

Changes to the ops of a step (precision, optimizer, adapters, compiling, ...) are part of the workload; `ways.py` applies them.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.hardware.types import Gpu, Loader
from gpuwise.scale.cluster.shape import Cluster
from gpuwise.step.types import Setting

__all__ = ["Measured", "Run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A step that the user measured: the GPU, the time, and the number of samples (None: the model's default batch)."""

    gpu: Gpu
    step_s: float
    batch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`setting` is the software, the host and its links. `gpu_link` connects several GPUs, such as `PCIe 3.0 x8`; if empty, it is
    the link of a typical machine. A `cluster` specifies all of this itself.

    A step has `accumulate` micro-batches. Several GPUs divide the samples only, or also the optimizer's state (`zero_stage`) or
    the matrices (`splits_matrices`, inference only). In each step, `offloaded_bytes` cross the link to the host, and `host_bytes`
    move within the host's memory. `decoder` is the source of uncertainty in the loader's rate, if images are decoded.
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
