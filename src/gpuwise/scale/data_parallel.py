"""Data parallelism on one node: every GPU runs the step on its own samples, then gradients are averaged over the links.

A ring all-reduce moves 2 (n - 1) / n times the gradients over the slowest link. Frameworks start it while the backward pass still
runs, so only what does not hide behind it is felt.
"""

from __future__ import annotations

from gpuwise.hardware.types import Gpu
from gpuwise.workload.evaluate import product_values
from gpuwise.workload.types import CATEGORIES, DTYPE_BYTES, Workload

__all__ = ["all_reduce_s", "exposed_s", "gradient_bytes"]

# Measured bus bandwidth of all-reduce over the link's own rate in one direction: A100 222 of 300 GB/s, H100 445 of 450 (in-switch
# reduction), V100 130 of 150. PCIe: without peer-to-peer copies go through the host.
_NVLINK_FRACTION = 0.75
_PCIE_FRACTION = 0.4
_PCIE_BYTES_PER_S_PER_LANE = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.97e9, 5: 3.94e9, 6: 7.56e9}
_HIDDEN_FRACTION = 0.45  # of the GPU's time: most of the backward pass
_LATENCY_S = 30e-6


def all_reduce_s(moved_bytes: float, gpu: Gpu, count: int) -> float:
    """Seconds to average this many bytes of gradients over `count` GPUs of one node."""
    if count <= 1:
        return 0.0
    return _LATENCY_S + 2 * (count - 1) / count * moved_bytes / _bus_bytes_per_s(gpu, count)


def _bus_bytes_per_s(gpu: Gpu, count: int) -> float:
    """NVLink where all GPUs share it: switches of server parts, a bridge between two cards."""
    bridged = gpu.segment == "datacenter" or count <= 2
    if gpu.nvlink_bytes_per_s and bridged:
        return gpu.nvlink_bytes_per_s / 2 * _NVLINK_FRACTION
    lane = _PCIE_BYTES_PER_S_PER_LANE[gpu.pcie_generation or 3]
    return lane * (gpu.pcie_lanes or 16) * _PCIE_FRACTION


def exposed_s(moved_bytes: float, gpu: Gpu, count: int, gpu_s: float) -> float:
    """Seconds by which the averaging makes a step longer."""
    return max(0.0, all_reduce_s(moved_bytes, gpu, count) - _HIDDEN_FRACTION * gpu_s)


def gradient_bytes(workload: Workload) -> float:
    """What several GPUs exchange each step: a gradient for every trained parameter."""
    if "lora_rank" not in workload.options:
        return workload.parameters * (2.0 if workload.precision in ("fp16", "bf16") else 4.0)
    values = product_values(workload)[0]
    tensors = workload.buffers.tensor[workload.buffers.category == CATEGORIES.index("gradient")]
    specs = [workload.tensors[row] for row in tensors]
    return sum(float(values[spec.elements]) * DTYPE_BYTES[spec.dtype] for spec in specs)
