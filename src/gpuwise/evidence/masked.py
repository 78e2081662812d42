"""Attention that is given a mask: PyTorch's memory-efficient kernel, the only fused one that accepts any mask.

Facts about the kernel (pytorch/pytorch, aten/src/ATen/native/transformers/cuda/mem_eff_attention):

* It computes all pairs of tokens, and the mask is added to their scores.
* It is compiled for heads of up to 64 and up to 128 values; narrower heads are padded. Wider heads keep their sums in memory
  instead of registers. On an A100, that takes 1.14 times as long per operation in the forward pass in 16 bits, and 2.4 times in
  the backward pass, but no longer in fp32 (tables in facebookresearch/xformers#587).
* In fp32, each product is three TF32 products on matrix engines (`OpMultiplyAddFastF32` in `gemm_kernel_utils.h`).
* Its tiles are smaller on GPUs whose units have about 100 KB of shared memory (compute capability 8.6, 8.9 and 12.0).
* It uses the instructions of Ampere (`mma.sync`), so a unit of a newer data-centre GPU does no more per clock than one of an
  A100.

Three speeds relative to the usual kernel are fitted by `tools/fit_tuning.py`, each with a prior from those tables.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np

from gpuwise.hardware.types import Gpu
from gpuwise.workload.model.types import Op, Workload

__all__ = ["MaskedRates", "has_small_tiles", "masked", "within_ampere"]

_PADDED = (64.0, 128.0)
_WIDE_IN_16_BITS = {"forward": 1.14, "backward": 2.4}
_LARGE_SHARED = 150e3  # bytes per unit: 164 KB on an A100, 228 KB on an H100, 100 KB on GeForce and RTX PRO cards

_AMPERE = 2048.0  # operations per clock of one unit of an A100, in 16 bits


class MaskedRates(msgspec.Struct, frozen=True):
    """Speeds relative to the usual kernel in the same type, in 16 bits and in fp32 (as TF32), and of small tiles to large."""

    half: float
    tf32: float
    small: float


def has_small_tiles(gpu: Gpu) -> bool:
    """Whether the shared memory of a unit is too small for the kernel's larger tiles."""
    return (gpu.architecture.shared_bytes_per_unit or 0.0) < _LARGE_SHARED


def within_ampere(gpu: Gpu) -> float:
    """Return the share of a matrix engine that the instructions of Ampere reach."""
    own = gpu.architecture.ops_per_unit_per_clock.get("matrix", {}).get("bf16", 0.0)
    return min(1.0, _AMPERE / own) if own else 1.0


def masked(workload: Workload, rates: MaskedRates, *, small: bool = False, reached: float = 1.0) -> Workload:
    """Return the step with a mask in every attention, on a GPU with `small` tiles or with a `reached` share of its engine."""
    share = reached * (rates.small if small else 1.0)
    ops = (_masked_op(workload, op, rates, share) if op.kind == "attention" else op for op in workload.ops)
    return replace(workload, ops=tuple(ops))


def _masked_op(workload: Workload, op: Op, rates: MaskedRates, share: float) -> Op:
    in_fp32 = op.dtype in ("fp32", "tf32")
    head = _head_dim(workload, op)
    rate = (rates.tf32 if in_fp32 else rates.half) * share
    padded = next((size for size in _PADDED if head <= size), head)
    rate *= head / padded
    if head > _PADDED[-1] and not in_fp32:
        rate /= _WIDE_IN_16_BITS[str(op.attrs["pass"])]
    return replace(op, dtype="tf32" if in_fp32 else op.dtype, attrs={**op.attrs, "causal": False, "mask": True, "rate": rate})


def _head_dim(workload: Workload, op: Op) -> float:
    """Return the width of a head, which depends on neither batch nor sequence."""
    return float(np.prod(workload.dims[list(workload.products[op.sizes[5]]), 0]))
