"""Hybrid parallelism for CNNs: convolutions, which are small but do most of the work, are data parallel; large dense layers
are model parallel.

Dense layers hold most parameters of early CNNs but do little of their work. Every GPU therefore runs all convolutions on its own
images, and holds a slice of each dense layer's outputs for the images of all GPUs. Instead of averaging the gradients of dense
layers, their inputs are gathered in the forward pass and the gradients of their inputs are summed in the backward pass
(Krizhevsky 2014, arXiv 1404.5997). Each GPU computes the same amount; messages are assumed not to overlap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwise.core.errors import BadValue
from gpuwise.scale.cluster.collectives import collective_s, waits_fraction
from gpuwise.scale.cluster.shape import Cluster
from gpuwise.scale.split.data_parallel import gradients_of, timeline_of
from gpuwise.step.types import Setting
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.types import CATEGORIES, DTYPE_BYTES, PHASES, Workload

__all__ = ["Hybrid", "hybrid"]

Array = NDArray[np.float64]
_FORWARD = PHASES.index("forward")
_WEIGHT = CATEGORIES.index("weight")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hybrid:
    """One step of `batch` images on each GPU: its time alone, and the time that gathering, summing and averaging add."""

    gpu_count: int
    batch: float
    alone_s: float
    gathered_s: float
    averaged_s: float

    @property
    def step_s(self) -> float:
        busy = self.alone_s + self.gathered_s + self.averaged_s
        return busy * (1.0 + waits_fraction(self.gpu_count))

    @property
    def speed_up(self) -> float:
        """The speed-up over one GPU with the same batch."""
        return self.gpu_count * self.alone_s / self.step_s


def hybrid(workload: Workload, cluster: Cluster, setting: Setting, *, batch: float | None = None) -> Hybrid:
    """Predict a training step with data-parallel convolutions and dense layers split over all GPUs of the cluster."""
    size = batch if "batch" in workload.symbols else None
    line = timeline_of(workload, cluster.gpu, setting, batch=size)
    inputs, weight_bytes = _dense(workload, size)
    if not len(inputs):
        raise BadValue(f"{workload.model} has no dense layers to split", hint="use data parallelism to split its batch instead")
    count = cluster.gpu_count
    groups = cluster.gpus_per_node, cluster.node_count
    gathered = sum(float(np.sum(collective_s(op, inputs * count, cluster, *groups))) for op in ("all_gather", "reduce_scatter"))
    rest = float(gradients_of(workload, size).size_bytes.sum()) - weight_bytes
    averaged = float(collective_s("all_reduce", rest, cluster, *groups))
    used = float(workload.batch if batch is None else batch)
    return Hybrid(gpu_count=count, batch=used, alone_s=line.step_s, gathered_s=gathered, averaged_s=averaged)


def _dense(workload: Workload, batch: float | None) -> tuple[Array, float]:
    """Return the bytes of each dense layer's inputs for the images of one GPU, and the bytes of all their weights."""
    values = product_values(workload, batch)[0]
    inputs, weights = [], 0.0
    for call in workload.calls:
        if call.phase != _FORWARD or workload.ops[call.op].kind != "matmul":
            continue
        read = [workload.buffers[place] for place in call.reads]
        held = [buffer for buffer in read if buffer.category == _WEIGHT]
        given = [buffer for buffer in read if buffer.category != _WEIGHT]
        if not held or not given:
            continue
        sizes = [
            float(values[workload.tensors[b.tensor].elements]) * DTYPE_BYTES[workload.tensors[b.tensor].dtype] for b in given
        ]
        inputs.append(max(sizes))
        specs = [workload.tensors[buffer.tensor] for buffer in held]
        weights += sum(float(values[spec.elements]) * DTYPE_BYTES[spec.dtype] for spec in specs)
    return np.array(inputs), weights
