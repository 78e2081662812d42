"""Which number formats a GPU can train and run models in."""

from __future__ import annotations

from gpuwise.hardware.types import Gpu

__all__ = ["convolves_in_tf32", "has_matrix_cores", "supported"]


def supported(gpu: Gpu) -> tuple[str, ...]:
    """Precisions this GPU can run. fp16 that is only stored, as on GTX 10, runs, but no faster."""
    peaks = gpu.peak_flops_per_s
    matrix, vector = peaks.get("matrix", {}), peaks.get("vector", {})
    found = ["fp32"] if vector.get("fp32") or matrix.get("fp32") else []
    found += ["tf32"] if "tf32" in matrix else []
    found += ["fp16", "amp"] if "fp16" in matrix or "fp16" in vector or gpu.vendor == "NVIDIA" else []
    found += ["bf16", "amp-bf16"] if "bf16" in matrix or "bf16" in vector or "bf16" in gpu.architecture.features else []
    return (*found, *(["fp8"] if "fp8" in matrix else []))


def convolves_in_tf32(gpu: Gpu) -> bool:
    """Whether convolutions in fp32 run as TF32 here unless that is switched off: cuDNN's default, so NVIDIA's since Ampere."""
    return gpu.vendor == "NVIDIA" and bool(gpu.peak_flops_per_s.get("matrix", {}).get("tf32"))


def has_matrix_cores(gpu: Gpu) -> bool:
    """Whether 16-bit matrix products are faster than fp32 ones here."""
    return bool(gpu.peak_flops_per_s.get("matrix", {}).get("fp16"))
