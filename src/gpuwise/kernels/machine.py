"""From catalogue rows to the columns kernel models read: engines, caches, power."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gpuwise.hardware.types import Gpu
from gpuwise.kernels.types import DTYPES, Gpus

__all__ = ["gpus_of"]

_ASSUMED_CACHE_BYTES_PER_UNIT = 64 * 1024  # where no L2 size is published: what small chips of the last decade have
_ASSUMED_WATTS = 150.0
_WIDER = {"tf32": "fp32", "fp8": "bf16", "int8": "bf16", "fp4": "fp8"}  # what a type runs as where it is missing
_MATRIX_FLOPS_A_UNIT = 1024.0  # a clock, of a V100's multiprocessor: what one unit stands for in the models
_VOLTA = 2017.3
_FLASH_CAPABILITY = 8.0  # flash attention needs Ampere or newer; older cards take the memory-efficient kernel


_COLUMNS = (
    "units clock bandwidth cache vector half converts lanes board node process hbm slower_hbm amd mixed desktop flash".split()
)


def gpus_of(gpus: Sequence[Gpu], power_limit_watts: float | Sequence[float] | None = None, dtype: Any = np.float64) -> Gpus:
    """Columns of these GPUs, with `power_limit_watts` (one or one for each) in place of their own limit where it is lower."""
    table = np.array([_figures(gpu) for gpu in gpus], dtype=dtype).T
    columns = {name: table[place : place + 1] for place, name in enumerate(_COLUMNS)}
    peak, matrix = np.split(np.ascontiguousarray(table[len(_COLUMNS) :]), 2)
    limit = np.inf if power_limit_watts is None else np.asarray(power_limit_watts, dtype=dtype)
    watts = np.minimum(columns["board"], limit)
    return Gpus(names=tuple(gpu.name for gpu in gpus), peak=peak, matrix=matrix, watts=watts, **columns)


@lru_cache(maxsize=4096)
def _figures(gpu: Gpu) -> tuple[float, ...]:
    """What the columns have of one GPU, its peaks in every type, and whether each is one of the matrix engine."""
    vector = _vector(gpu)
    fp16 = gpu.peak_flops_per_s.get("vector", {}).get("fp16")
    engines = [_engine(gpu, name) for name in DTYPES]
    return (
        _units(gpu),
        gpu.boost_clock_hz,
        gpu.memory_bytes_per_s,
        _cache_bytes(gpu),
        vector,
        (fp16 or vector) / vector,
        float(not fp16 or fp16 < vector),
        max(1.0, vector / gpu.boost_clock_hz / 2),
        gpu.tdp_watts or _ASSUMED_WATTS,
        _year(gpu),
        gpu.architecture.process_nm or _usual_nm(_year(gpu)),
        float(gpu.memory_type.startswith("HBM")),
        float(gpu.memory_type.startswith("HBM") and _reaches_less(gpu)),
        float(_is_amd(gpu)),
        float(gpu.architecture.mixed_lanes),
        float(gpu.segment == "desktop"),
        float(_has_flash(gpu)),
        *(rate for rate, _ in engines),
        *(float(on_matrix) for _, on_matrix in engines),
    )


def _units(gpu: Gpu) -> float:
    """Multiprocessors; a TPU's few large arrays count as the many that would do as much a clock."""
    if gpu.segment != "tpu":
        return gpu.sm_count
    return gpu.sm_count * gpu.architecture.ops_per_unit_per_clock["matrix"]["bf16"] / _MATRIX_FLOPS_A_UNIT


def _year(gpu: Gpu) -> float:
    return gpu.architecture.introduced_on.year + gpu.architecture.introduced_on.month / 12


def _reaches_less(gpu: Gpu) -> bool:
    """Whether its memory controller reaches less of HBM: NVIDIA's before Volta (a P100 copies at 444 of 732 GB/s, a V100 at 869
    of 900), and AMD's."""
    return _is_amd(gpu) or _year(gpu) < _VOLTA


def _is_amd(gpu: Gpu) -> bool:
    return gpu.vendor == "AMD" and not gpu.is_cpu


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
    if dtype == "tf32" and gpu.vendor != "NVIDIA":
        return _engine(gpu, "fp32")  # PyTorch takes it only where it is asked for (ROCm), or not at all
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
