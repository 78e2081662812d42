"""Computes op times on GPUs, and their lower bounds, from catalogue rows and fitted constants.

The model for an op's kind predicts its time. `tools/fit` writes the constants; nothing is fitted at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import msgspec
import numpy as np

from gpuwise.hardware.types import Gpu
from gpuwise.kernels.limits import either, longer
from gpuwise.kernels.registry import MODELS
from gpuwise.kernels.types import DTYPES, GENERATIONS, MAKERS, Array, Columns, Constants, Gpus, Ops, dtype_code

__all__ = ["Times", "floors_s", "gpus_of", "load_constants", "times"]

# ---------------------------------------------------------------- fitted constants


class _File(msgspec.Struct):
    version: int
    fitted_on: list[str]
    constants: dict[str, float]


# Software for text generation is assumed to match the libraries used in the fit, unless an engine has its own constants.
_LIBRARIES = {
    "linear.bytes_per_clock": 64.0,
    "linear.bandwidth": 1.0,
    "linear.rate": 1.0,
    "linear.flops_per_clock": 1e5,
    "linear.overlap": 8.0,
    "linear.narrow": 0.0,
    "linear.experts": 1.0,
    "linear.ecc": 1.0,
    "linear.apple": 1.0,
    "linear.amd": 1.0,
    "linear.intel": 1.0,
    "start.amd": 1.0,
    "start.intel": 1.0,
    "start.apple": 1.0,
    "start.soc": 1.0,
    "attention.cache": 1.0,
    "attention.expand": 0.0,
}


@cache
def load_constants() -> Constants:
    """Return every constant by name."""
    data = (files("gpuwise.kernels") / "data" / "constants.json").read_bytes()
    return {**_LIBRARIES, **msgspec.json.decode(data, type=_File).constants}


# ---------------------------------------------------------------- GPUs as columns: engines, caches, power

_ASSUMED_CACHE_BYTES_PER_UNIT = 64 * 1024  # if no L2 size is published: typical for small chips of the last decade
_ASSUMED_WATTS = 150.0
_WIDER = {"tf32": "fp32", "fp8": "bf16", "int8": "bf16", "fp4": "fp8"}  # the type that is used when this one is missing
_TAKE_TF32 = ("NVIDIA", "Intel")  # if allowed; AMD's libraries need a separate opt-in, and Apple has no TF32
_FP16_PRODUCTS = {"turing-16": 0.14}  # share of fp32: 0.3 to 0.6 TFLOP/s on four GTX 16 and MX cards that do 2.1 to 5.2 in fp32
_MATRIX_FLOPS_A_UNIT = 1024.0  # per clock, on a V100 multiprocessor: the size of one unit in the models
_VOLTA = 2017.3
_FLASH_CAPABILITY = 8.0  # flash attention needs Ampere or newer; older cards use the memory-efficient kernel


_COLUMNS = (
    *("units", "clock", "bandwidth", "cache", "vector", "half", "converts", "lanes", "board", "node", "process"),
    *("hbm", "slower_hbm", "maker", "generation", "mixed", "soc", "ecc", "products16", "sums16", "bytes8", "flash"),
)


def gpus_of(gpus: Sequence[Gpu], power_limit_watts: float | Sequence[float] | None = None, dtype: Any = np.float64) -> Gpus:
    """Return the columns for these GPUs. `power_limit_watts` (one value, or one per GPU) replaces a GPU's own limit if it is
    lower.
    """
    table = np.array([_figures(gpu) for gpu in gpus], dtype=dtype).T
    columns = {name: table[place : place + 1] for place, name in enumerate(_COLUMNS)}
    peak, matrix = np.split(np.ascontiguousarray(table[len(_COLUMNS) :]), 2)
    limit = np.inf if power_limit_watts is None else np.asarray(power_limit_watts, dtype=dtype)
    watts = np.minimum(columns["board"], limit)
    return Gpus(names=tuple(gpu.name for gpu in gpus), peak=peak, matrix=matrix, watts=watts, **columns)


@lru_cache(maxsize=4096)
def _figures(gpu: Gpu) -> tuple[float, ...]:
    """Return one GPU's values for the columns, its peaks in every type, and whether each is a matrix-engine peak."""
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
        _maker(gpu),
        _generation(gpu),
        float(gpu.architecture.mixed_lanes),
        float(gpu.segment in ("soc", "embedded") and gpu.vendor == "NVIDIA"),
        float(gpu.segment in ("workstation", "datacenter") and gpu.memory_type.startswith("GDDR")),
        _FP16_PRODUCTS.get(gpu.architecture.id, 1.0),
        _sums16(gpu),
        _bytes8(gpu),
        float(_has_flash(gpu)),
        *(rate for rate, _ in engines),
        *(float(on_matrix) for _, on_matrix in engines),
    )


def _units(gpu: Gpu) -> float:
    """Return the number of multiprocessors. A TPU's few large arrays count as the number of units that would do the same work per
    clock.
    """
    if gpu.segment != "tpu":
        return gpu.sm_count
    return gpu.sm_count * gpu.architecture.ops_per_unit_per_clock["matrix"]["bf16"] / _MATRIX_FLOPS_A_UNIT


def _year(gpu: Gpu) -> float:
    return gpu.architecture.introduced_on.year + gpu.architecture.introduced_on.month / 12


def _reaches_less(gpu: Gpu) -> bool:
    """Return whether the memory controller reaches a smaller share of HBM bandwidth: NVIDIA before Volta (a P100 copies at 444 of
    732 GB/s, a V100 at 869 of 900), and AMD.
    """
    return _is_amd(gpu) or _year(gpu) < _VOLTA


def _is_amd(gpu: Gpu) -> bool:
    return gpu.vendor == "AMD" and not gpu.is_cpu


def _usual_nm(year: float) -> float:
    """Return the process node that most GPUs of a year use, if the architecture's own is unknown: 28 nm in 2012, halved every
    four years.
    """
    return float(28.0 * 2.0 ** ((2012.0 - year) / 4.0))


def _cache_bytes(gpu: Gpu) -> float:
    return (gpu.l2_bytes or gpu.sm_count * _ASSUMED_CACHE_BYTES_PER_UNIT) + (gpu.l3_bytes or 0.0)


def _vector(gpu: Gpu) -> float:
    found = gpu.peak_flops_per_s.get("vector", {})
    return found.get("fp32", 0.0) or max(found.values(), default=gpu.best_peak("bf16") or 1.0)


def _engine(gpu: Gpu, dtype: str) -> tuple[float, bool]:
    """Return the highest FLOP/s that a library can reach in this type, and whether it uses the matrix engine.

    If a type is missing or very slow (fp16 on GP10x runs at 1/64), libraries compute in fp32 and use the type only for storage.
    NVIDIA's libraries do so on every GPU without a matrix engine, because PyTorch asks for fp32 accumulation: a P100 does 8.4
    TFLOP/s in fp16 and 8.6 in fp32, although its lanes could run fp16 twice as fast.
    """
    peaks = gpu.peak_flops_per_s
    if dtype == "tf32" and gpu.vendor not in _TAKE_TF32:
        return _engine(gpu, "fp32")
    matrix = peaks.get("matrix", {}).get(dtype)
    if matrix:
        return matrix, True
    wide = _vector(gpu)
    if dtype in _WIDER:
        return _engine(gpu, _WIDER[dtype])
    if dtype == "fp16" and gpu.vendor == "NVIDIA":
        return wide, False
    own = peaks.get("vector", {}).get(dtype, 0.0)
    return (own, False) if dtype == "fp64" and own else (max(own, wide), False)


def _sums16(gpu: Gpu) -> float:
    """GeForce cards halve the rate of fp16 products that accumulate in fp32, as PyTorch requests, but not of other products."""
    return max(1.0, gpu.peak_flops_per_s.get("matrix", {}).get("fp16_acc16", 0.0) / _engine(gpu, "fp16")[0])


def _bytes8(gpu: Gpu) -> float:
    """Kernels that round activations to int8 run two int8 products for each fp16 product on most chips, and more where fp16 is
    very slow.
    """
    best = max(gpu.peak_flops_per_s.get(engine, {}).get("int8", 0.0) for engine in ("matrix", "vector"))
    return max(1.0, best / 2.0 / _engine(gpu, "fp16")[0])


def _maker(gpu: Gpu) -> float:
    return 0.0 if gpu.is_cpu or gpu.vendor.lower() not in MAKERS else 1.0 + MAKERS.index(gpu.vendor.lower())


def _generation(gpu: Gpu) -> float:
    name = gpu.architecture.generation
    return float(GENERATIONS.index(name)) if name in GENERATIONS and not gpu.is_cpu else -1.0


def _has_flash(gpu: Gpu) -> bool:
    try:
        return gpu.vendor == "NVIDIA" and float(gpu.architecture.capability) >= _FLASH_CAPABILITY
    except ValueError:
        return False


# ---------------------------------------------------------------- times: how the parts of a cost join


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds for each op on each GPU, shape (ops, gpus), in total and if only arithmetic or only memory mattered."""

    seconds: Array
    compute_s: Array
    memory_s: Array
    launches: Array


def times(ops: Ops, gpus: Gpus, k: Constants) -> Times:
    """Return the times of every op on every GPU. Arithmetic and memory traffic overlap, but not perfectly, and every kernel has a
    start and an end.
    """
    shape, dtype = (ops.count, len(gpus.names)), gpus.clock.dtype
    k = {
        name: dtype.type(value) for name, value in {**_LIBRARIES, **k}.items()
    }  # a single float64 would turn all arrays into float64
    result = {name: np.zeros(shape, dtype=dtype) for name in ("seconds", "compute_s", "memory_s", "launches")}
    sharp = k["overlap"]
    starts = np.array([1.0, *(k[f"start.{name}"] for name in MAKERS)], dtype=dtype)[gpus.maker.astype(np.intp)]
    starts = starts * either(gpus.soc, k["start.soc"], 1.0)
    for group in ops.groups:
        columns = {name: column.astype(dtype, copy=False) for name, column in group.columns.items()}
        cost = MODELS[group.kind].price(columns, gpus, k)
        compute, memory = np.broadcast_arrays(cost.compute_s, cost.memory_s)
        joined = longer(compute, memory, sharp)
        launches = np.broadcast_to(cost.launches * starts, joined.shape)  # in kernel starts on an NVIDIA GPU
        result["seconds"][group.rows] = joined + k["kernel.start_s"] * launches
        result["compute_s"][group.rows] = compute
        result["memory_s"][group.rows] = memory
        result["launches"][group.rows] = launches
    return Times(**result)


# ---------------------------------------------------------------- floors
# The shortest time an op can take on a GPU with any software: its FLOPs at the rated peak, and its bytes once each at the rated
# bandwidth, except for bytes that a cache may hold.
#
# Nothing here is fitted. Cards that run above their rated clock may be slightly faster; the models then return the rated value.

_FP32 = dtype_code("fp32")
_TF32 = dtype_code("tf32")
_CACHES = 2.0  # assumed: weights larger than this many caches are evicted before they are read again


def floors_s(ops: Ops, gpus: Gpus) -> Array:
    """Return the shortest time of each op on each GPU in seconds, shape (ops, gpus)."""
    found = np.zeros((ops.count, len(gpus.names)), dtype=gpus.clock.dtype)
    for group in ops.groups:
        op = {name: column.astype(found.dtype, copy=False) for name, column in group.columns.items()}
        least = _moving(op, gpus)
        least_flops = MODELS[group.kind].least_flops
        if least_flops is not None:
            least = np.maximum(least, least_flops(op) / _peak(op, gpus))
        found[group.rows] = least
    return found


def _peak(op: Columns, gpu: Gpus) -> Array:
    """Return the rated FLOP/s of the engine. Ops that may run as TF32 may also run in fp32."""
    code = op["dtype"][:, 0].astype(np.intp)
    result: Array = np.where(op["dtype"] == _TF32, np.maximum(gpu.peak[_TF32], gpu.peak[_FP32]), gpu.peak[code])
    return result


def _moving(op: Columns, gpu: Gpus) -> Array:
    """Return the bytes that must come from memory: weights, if they exceed what caches keep until the next use, and all other
    bytes that no cache holds.
    """
    cold = np.where(op["weights"] > _CACHES * gpu.cache, op["cold"], 0.0) if "cold" in op else 0.0
    other = np.maximum(op["read"] + op["written"] - cold - gpu.cache, 0.0)
    result: Array = (cold + other) / gpu.bandwidth
    return result
