"""How much faster kernels would be in another precision or with padded sizes, as the kernel models of `predict` say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gpuwise.diagnose.shapes import Product
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.times import gpus_of, load_constants, times
from gpuwise.kernels.types import Group, Ops, dtype_code

__all__ = ["half_type", "padded", "speed_up"]

_BYTES = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0, "fp64": 8.0}
_TYPICAL = (512, 2048)  # edge of a product, where the trace has no shapes: the lower and the upper end


def speed_up(products: Mapping[Product, int], gpu: Gpu, before: str, after: str) -> tuple[float, float]:
    """A low and a high factor for matrix products that go from one type to another on a GPU.

    With shapes the high one is what the kernel models say of them, the low one half of that gain. Without, square products of 512
    and 2048 stand in.
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


def padded(products: Mapping[Product, int], gpu: Gpu, multiple: int) -> float:
    """How many times as fast the products would be with every dimension rounded up."""

    def up(size: int) -> int:
        return -(-size // multiple) * multiple

    now = sum(_seconds({product: count}, gpu, product.dtype) for product, count in products.items())
    rounded = (
        (replace(product, m=up(product.m), n=up(product.n), k=up(product.k)), count) for product, count in products.items()
    )
    then = sum(_seconds({product: count}, gpu, product.dtype) for product, count in rounded)
    return max(now / max(then, 1e-12), 1.0)


def half_type(gpu: Gpu) -> str | None:
    """The 16-bit type a person would train in on this GPU, None where it has no matrix engine for one."""
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
