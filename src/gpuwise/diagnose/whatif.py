"""Predicts how much faster kernels would be in another precision or with padded sizes, using the kernel models of `predict`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gpuwise.diagnose.shapes import Product
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.times import gpus_of, load_constants, times
from gpuwise.kernels.types import Group, Ops, dtype_code

__all__ = ["cast_share", "half_type", "least_factors", "padded", "speed_up"]

_BYTES = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0, "fp64": 8.0}
_SHORTEST_NS = 15_000  # the time of a nearly empty kernel on matrix units; shorter kernels stay as they are; assumed
_LEAST = (
    1.6  # times as fast, for long kernels: where a quarter of a step was in them, pairs of runs became 1.09 to 1.13 times as fast
)
_UNTOLD_CASTS = 0.1  # of the time of the products, where the trace has no shapes; of squares of 512 and 2048 it is 20% and 5%
_TYPICAL = (512, 2048)  # edge of a product, where the trace has no shapes: the lower and the upper end


def speed_up(products: Mapping[Product, int], gpu: Gpu, before: str, after: str) -> tuple[float, float]:
    """Return a low and a high factor for matrix products that change from one type to another on a GPU.

    With shapes, the high one is what the kernel models predict, and the low one half of that gain. Without, square products of
    512 and 2048 represent them.
    """
    chosen = {product: count for product, count in products.items() if product.dtype == _stored(before)}
    if chosen:
        ratio = _seconds(chosen, gpu, before) / max(_seconds(chosen, gpu, after), 1e-12)
        return 1.0 + 0.5 * max(ratio - 1.0, 0.0), max(ratio, 1.0)
    ends = []
    for edge in _TYPICAL:
        typical = {Product("aten::mm", 1, edge, edge, edge, "fp32"): 1}
        ends.append(max(_seconds(typical, gpu, before) / _seconds(typical, gpu, after), 1.0))
    return min(ends), max(ends)


def least_factors(durations_ns: npt.NDArray[np.int64], high: float, added: float = 0.0) -> npt.NDArray[np.float64]:
    """Return factors on the time of kernels that change their type, at the lower end: long ones become at least 1.6 times as
    fast, short ones stay the same, and `added` is the share of their time that new kernels (casts) take.
    """
    least = min(_LEAST, 1.0 + 0.5 * max(high - 1.0, 0.0))
    floor = _SHORTEST_NS / np.maximum(durations_ns, 1)
    return np.asarray(np.minimum(np.maximum(1.0 / least, floor), 1.0) + added, dtype=np.float64)


def cast_share(products: Mapping[Product, int], gpu: Gpu, seconds: float) -> float:
    """Return the time to cast the operands of fp32 products to 16 bits, as a share of the products' current time: four bytes
    are read and two are written per number.
    """
    numbers = sum(
        count * product.batch * product.k * (product.m + product.n)
        for product, count in products.items()
        if product.dtype == "fp32"
    )
    if not numbers or seconds <= 0:
        return _UNTOLD_CASTS
    return min(6.0 * numbers / gpu.memory_bytes_per_s / seconds, 1.0)


def padded(products: Mapping[Product, int], gpu: Gpu, multiple: int) -> float:
    """Return how many times as fast the products would be with every dimension rounded up."""

    def up(size: int) -> int:
        return -(-size // multiple) * multiple

    now = sum(_seconds({product: count}, gpu, product.dtype) for product, count in products.items())
    rounded = (
        (replace(product, m=up(product.m), n=up(product.n), k=up(product.k)), count) for product, count in products.items()
    )
    then = sum(_seconds({product: count}, gpu, product.dtype) for product, count in rounded)
    return max(now / max(then, 1e-12), 1.0)


def half_type(gpu: Gpu) -> str | None:
    """Return the 16-bit type in which people train on this GPU, or None if it has no matrix engine for one."""
    matrix = gpu.peak_flops_per_s.get("matrix", {})
    return next((name for name in ("bf16", "fp16") if matrix.get(name)), None)


def _stored(dtype: str) -> str:
    return "fp32" if dtype == "tf32" else dtype


def _seconds(products: Mapping[Product, int], gpu: Gpu, dtype: str) -> float:
    listed = list(products)

    def column(values: list[float]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        return np.array(values, dtype=np.float64).reshape(-1, 1)

    width = _BYTES[dtype]
    columns = {
        "batch": column([float(product.batch) for product in listed]),
        "m": column([float(product.m) for product in listed]),
        "n": column([float(product.n) for product in listed]),
        "k": column([float(product.k) for product in listed]),
        "dtype": column([float(dtype_code(dtype))] * len(listed)),
        "aligned": column([float(product.n % 8 == 0 and product.k % 8 == 0) for product in listed]),
        "read": column([width * product.batch * product.k * (product.m + product.n) for product in listed]),
        "written": column([width * product.batch * product.m * product.n for product in listed]),
    }
    ops = Ops(count=len(listed), groups=(Group(kind="matmul", rows=np.arange(len(listed)), columns=columns),))
    seconds = times(ops, gpus_of([gpu]), load_constants()).seconds[:, 0]
    return float((seconds * np.array([products[product] for product in listed])).sum())
