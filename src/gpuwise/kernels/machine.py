"""From catalogue rows to the columns kernel models read: engines, caches, power."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuwise.hardware.types import Gpu
from gpuwise.kernels.types import DTYPES, Array, Gpus

__all__ = ["gpus_of"]

_ASSUMED_CACHE_BYTES_PER_UNIT = 64 * 1024  # where no L2 size is published: what small chips of the last decade have
_ASSUMED_WATTS = 150.0
_WIDER = {"tf32": "fp32", "fp8": "bf16", "int8": "bf16", "fp4": "fp8"}  # what a type runs as where it is missing
_MATRIX_FLOPS_A_UNIT = 1024.0  # a clock, of a V100's multiprocessor: what one unit stands for in the models
_FLASH_CAPABILITY = 8.0  # flash attention needs Ampere or newer; older cards take the memory-efficient kernel


def gpus_of(gpus: Sequence[Gpu], power_limit_watts: float | Sequence[float] | None = None, dtype: Any = np.float64) -> Gpus:
    """Columns of these GPUs, with `power_limit_watts` (one or one for each) in place of their own limit where it is lower."""

    def column(values: Sequence[float]) -> Array:
        return np.array([values], dtype=dtype)

    board = column([gpu.tdp_watts or _ASSUMED_WATTS for gpu in gpus])
    lanes = [max(1.0, _vector(gpu) / gpu.boost_clock_hz / 2) for gpu in gpus]
    rates = [[_engine(gpu, name) for gpu in gpus] for name in DTYPES]
    return Gpus(
        names=tuple(gpu.name for gpu in gpus),
        units=column([_units(gpu) for gpu in gpus]),
        clock=column([gpu.boost_clock_hz for gpu in gpus]),
        bandwidth=column([gpu.memory_bytes_per_s for gpu in gpus]),
        cache=column([_cache_bytes(gpu) for gpu in gpus]),
        peak=np.array([[rate for rate, _ in row] for row in rates], dtype=dtype),
        matrix=np.array([[float(matrix) for _, matrix in row] for row in rates], dtype=dtype),
        vector=column([_vector(gpu) for gpu in gpus]),
        half=column([(gpu.peak_flops_per_s.get("vector", {}).get("fp16") or _vector(gpu)) / _vector(gpu) for gpu in gpus]),
        lanes=column(lanes),
        watts=np.minimum(board, np.inf if power_limit_watts is None else np.asarray(power_limit_watts, dtype=dtype)),
        board=board,
        node=column([_year(gpu) for gpu in gpus]),
        process=column([gpu.architecture.process_nm or _usual_nm(_year(gpu)) for gpu in gpus]),
        hbm=column([float(gpu.memory_type.startswith("HBM")) for gpu in gpus]),
        desktop=column([float(gpu.segment == "desktop") for gpu in gpus]),
        flash=column([float(_has_flash(gpu)) for gpu in gpus]),
    )


def _units(gpu: Gpu) -> float:
    """Multiprocessors; a TPU's few large arrays count as the many that would do as much a clock."""
    if gpu.segment != "tpu":
        return gpu.sm_count
    return gpu.sm_count * gpu.architecture.ops_per_unit_per_clock["matrix"]["bf16"] / _MATRIX_FLOPS_A_UNIT


def _year(gpu: Gpu) -> float:
    return gpu.architecture.introduced_on.year + gpu.architecture.introduced_on.month / 12


def _usual_nm(year: float) -> float:
    """The process of most GPUs of a year, where an architecture's own is not known: 28 nm in 2012, half every four years."""
    return float(28.0 * 2.0 ** ((2012.0 - year) / 4.0))


def _cache_bytes(gpu: Gpu) -> float:
    return (gpu.l2_bytes or gpu.sm_count * _ASSUMED_CACHE_BYTES_PER_UNIT) + (gpu.l3_bytes or 0.0)


def _vector(gpu: Gpu) -> float:
    found = gpu.peak_flops_per_s.get("vector", {})
    return found.get("fp32", 0.0) or max(found.values(), default=gpu.best_peak("bf16") or 1.0)


def _engine(gpu: Gpu, dtype: str) -> tuple[float, bool]:
    """FLOP/s a library reaches for at best in this type, and whether on the matrix engine.

    Where a type is missing or crawls (fp16 on GP10x runs at 1/64), libraries compute in fp32 and only store in the type.
    """
    peaks = gpu.peak_flops_per_s
    matrix = peaks.get("matrix", {}).get(dtype)
    if matrix:
        return matrix, True
    wide = _vector(gpu)
    if dtype in _WIDER:
        return _engine(gpu, _WIDER[dtype])
    own = peaks.get("vector", {}).get(dtype, 0.0)
    return (own, False) if dtype == "fp64" and own else (max(own, wide), False)


def _has_flash(gpu: Gpu) -> bool:
    try:
        return gpu.vendor == "NVIDIA" and float(gpu.architecture.capability) >= _FLASH_CAPABILITY
    except ValueError:
        return False
