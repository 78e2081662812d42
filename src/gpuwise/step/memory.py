"""How much of the GPU's memory a step needs: what the program allocates at its peak, and what framework and libraries add."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuwise.step.types import Array
from gpuwise.workload.evaluate import peak_memory, product_values
from gpuwise.workload.types import DTYPE_BYTES, Workload

__all__ = ["Memory", "memory_of"]

# CUDA context, the code of the libraries and the framework's own buffers. Assumed: 0.6 to 1.8 GB are seen, by GPU and version.
_FRAMEWORK_BYTES = 0.9e9
_SPARE_FRACTION = 0.04  # freed blocks the allocator cannot give to others
_WORKSPACE_SHARE = 0.5  # of the largest operands of a convolution, at most _WORKSPACE_BYTES
_WORKSPACE_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes on the device at the peak of a step, by what they hold."""

    weight_bytes: float
    gradient_bytes: float
    optimizer_bytes: float
    activation_bytes: float
    workspace_bytes: float
    framework_bytes: float

    @property
    def total_bytes(self) -> float:
        return (
            self.weight_bytes
            + self.gradient_bytes
            + self.optimizer_bytes
            + self.activation_bytes
            + self.workspace_bytes
            + self.framework_bytes
        )


def memory_of(workload: Workload, batch: float | None = None, seq: float | None = None) -> Memory:
    """The peak of one step at one size. Inputs and temporaries count as activations."""
    peak = peak_memory(workload, batch, seq)
    by = peak.by_category
    return Memory(
        weight_bytes=by["weight"],
        gradient_bytes=by["gradient"],
        optimizer_bytes=by["optimizer"],
        activation_bytes=by["activation"] + by["input"] + by["temporary"],
        workspace_bytes=_workspace(workload, product_values(workload, batch, seq)[0]) + _SPARE_FRACTION * peak.total_bytes,
        framework_bytes=_FRAMEWORK_BYTES,
    )


def _workspace(workload: Workload, values: Array) -> float:
    """What libraries borrow for their largest call."""
    sizes = [
        sum(values[workload.tensors[row].elements] * DTYPE_BYTES[workload.tensors[row].dtype] for row in (*op.reads, *op.writes))
        for op in workload.ops
        if op.kind in ("conv", "matmul")
    ]
    return float(min(_WORKSPACE_BYTES, _WORKSPACE_SHARE * np.max(sizes))) if sizes else 0.0
