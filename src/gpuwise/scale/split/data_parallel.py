"""Data parallelism: every GPU runs the step on its own samples, and gradients are averaged over the links.

What is felt of the averaging comes from the captured graph: when each gradient is ready on the compute lane, and how long its
bucket takes on the communication lane (`overlap.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gpuwise.hardware.types import Gpu
from gpuwise.kernels.types import Constants
from gpuwise.scale.cluster.collectives import collective_s
from gpuwise.scale.cluster.constants import load_scaling
from gpuwise.scale.cluster.shape import Cluster, usual_cluster
from gpuwise.scale.split.habits import Habits
from gpuwise.scale.split.overlap import BUCKET_BYTES, Overlap, overlapped
from gpuwise.scale.split.timeline import Gradients, Timeline, gradients_of, timeline_of
from gpuwise.step.types import Setting
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.types import CATEGORIES, DTYPE_BYTES, Workload

__all__ = [
    "DataParallel",
    "all_reduce_s",
    "averaged",
    "data_parallel",
    "exposed_s",
    "gradient_bytes",
    "habits_of",
    "slowed_fraction",
    "threaded_s",
    "waits_fraction",
]

# Both set by eye on the DataParallel rows of one source (ryujaehun), which are therefore no check of them.
_FORWARD_OF_HOST = 0.33  # of the host's time for a training step
_REPLICATING = 1.0  # making a copy of a model costs the host about as much as issuing its forward pass
_HIDDEN_FRACTION = 0.45  # of the GPU's time, where no graph is at hand: most of the backward pass


@dataclass(frozen=True, kw_only=True, eq=False)
class DataParallel:
    """One step on all GPUs of a cluster, `batch` samples on each. `alone_s` is the step of one GPU by itself."""

    gpu_count: int
    batch: float
    alone_s: float
    overlap: Overlap

    @property
    def waits_s(self) -> float:
        """For the slowest of them, and for a host that serves them all."""
        return waits_fraction(self.gpu_count) * (self.alone_s + self.overlap.exposed_s)

    @property
    def step_s(self) -> float:
        return self.alone_s + self.overlap.exposed_s + self.waits_s

    @property
    def samples_per_s(self) -> float:
        return self.gpu_count * self.batch / self.step_s

    @property
    def efficiency_fraction(self) -> float:
        """Of one GPU working by itself."""
        return self.alone_s / self.step_s

    @property
    def speed_up(self) -> float:
        """Over one GPU with the same batch."""
        return self.gpu_count * self.efficiency_fraction


def data_parallel(
    workload: Workload,
    cluster: Cluster,
    setting: Setting,
    *,
    batch: float | None = None,
    seq: float | None = None,
    power_limit_watts: float | None = None,
    constants: Constants | None = None,
) -> DataParallel:
    """A training step of so many samples on each GPU of the cluster, as DistributedDataParallel runs it. Of mixed cards the
    first is taken."""
    line = timeline_of(
        workload, cluster.gpu, setting, batch=batch, seq=seq, power_limit_watts=power_limit_watts, constants=constants
    )
    gradients = gradients_of(workload, batch, seq)
    overlap = averaged(line, gradients, cluster, slowed_fraction=slowed_fraction(setting))
    size = float(workload.batch if batch is None else batch)
    return DataParallel(gpu_count=cluster.gpu_count, batch=size, alone_s=line.step_s, overlap=overlap)


def averaged(
    line: Timeline, gradients: Gradients, cluster: Cluster, op: str = "all_reduce", /, *, slowed_fraction: float = 0.0
) -> Overlap:
    """The gradients of a step with this timeline, averaged over the whole cluster."""
    if cluster.gpu_count == 1:
        gradients = Gradients(call=gradients.call[:0], size_bytes=gradients.size_bytes[:0])
    return overlapped(
        line.call_end_s[gradients.call],
        gradients.size_bytes,
        line.backward_end_s,
        lambda sizes: collective_s(op, sizes, cluster, cluster.gpus_per_node, cluster.node_count),
        slowed_fraction=slowed_fraction,
    )


def threaded_s(workload: Workload, cluster: Cluster, host_s: float) -> float:
    """What `nn.DataParallel` adds to a step for which the host needs `host_s` on one GPU.

    One process copies the weights to all GPUs, makes the model anew for each of them, issues their forward passes in turn and
    sums the gradients on the first; backward passes have a thread each. Nothing of that hides.
    """
    count = cluster.gpu_count
    if count == 1:
        return 0.0
    training = workload.mode == "train"
    copied = float(collective_s("broadcast", gradient_bytes(workload), cluster, cluster.gpus_per_node, cluster.node_count))
    forward = host_s * (_FORWARD_OF_HOST if training else 1.0)
    return (count - 1) * forward + count * forward * _REPLICATING + copied * (2.0 if training else 1.0)


def slowed_fraction(setting: Setting) -> float:
    """How much slower compute is while messages are under way: they take units, memory and their turn in the queue."""
    known = load_scaling()["slowed_fraction"]
    return float(known.get(setting.stack.framework, known["torch"]))


def habits_of(setting: Setting) -> Habits:
    """How a step of a plan passes that nothing else is known of: where only samples are divided, as `data_parallel` has it."""
    return Habits(waits_per_doubling=float(load_scaling()["waits_per_doubling"]), slowed_fraction=slowed_fraction(setting))


def waits_fraction(gpu_count: int) -> float:
    """By how much a step is longer on so many GPUs even if they exchange nothing: some are slower, and they share a host."""
    return float(load_scaling()["waits_per_doubling"] * np.log2(max(1, gpu_count)))


@lru_cache(maxsize=256)
def _usual(gpu: Gpu, count: int) -> Cluster:
    return usual_cluster(gpu, count)


def all_reduce_s(moved_bytes: float, gpu: Gpu, count: int) -> float:
    """Seconds to average this many bytes over `count` GPUs of a kind, in machines as they usually are."""
    if count <= 1:
        return 0.0
    cluster = _usual(gpu, count)
    return float(collective_s("all_reduce", moved_bytes, cluster, cluster.gpus_per_node, cluster.node_count))


def exposed_s(moved_bytes: float, gpu: Gpu, count: int, gpu_s: float) -> float:
    """Seconds by which several GPUs make a step longer, where only its length is known and not its graph: what does not hide
    behind the backward pass, at least the last bucket, which is whole when that ends; and waiting for each other."""
    if count <= 1:
        return 0.0
    last = all_reduce_s(min(moved_bytes, BUCKET_BYTES), gpu, count)
    exposed = max(last, all_reduce_s(moved_bytes, gpu, count) - _HIDDEN_FRACTION * gpu_s)
    return exposed + waits_fraction(count) * (gpu_s + exposed)


def gradient_bytes(workload: Workload) -> float:
    """What several GPUs exchange each step: a gradient for every trained parameter."""
    if "lora_rank" not in workload.options:
        return workload.parameters * (2.0 if workload.precision in ("fp16", "bf16") else 4.0)
    values = product_values(workload)[0]
    tensors = workload.buffers.tensor[workload.buffers.category == CATEGORIES.index("gradient")]
    specs = [workload.tensors[row] for row in tensors]
    return sum(float(values[spec.elements]) * DTYPE_BYTES[spec.dtype] for spec in specs)
