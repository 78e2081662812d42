"""Rows of today's tables that are not steps: the memory a job uses, and the best rate of square products."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from gpuwise.core.errors import BadValue
from gpuwise.core.units import GIB
from gpuwise.evidence.e2e import Question
from gpuwise.evidence.ranges import as_known, knows, range_of
from gpuwise.evidence.types import Residual
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.times import floors_s, gpus_of, load_constants, times
from gpuwise.kernels.types import Group, Ops, dtype_code
from gpuwise.step.memory.lifetimes import memory_data
from gpuwise.step.memory.peak import memory_of
from gpuwise.step.time.setting import default_stack
from gpuwise.workload.model.types import DTYPE_BYTES

__all__ = ["memory_residual", "products_residual"]

_SIDES = np.arange(1024.0, 10240.0 + 1, 1024.0)
_TERA = 1e12


def memory_residual(question: Question, value_gib: float) -> Residual:
    """Compare what the job allocates if the row says so, otherwise what the driver would show."""
    workload, note = question.workload, question.cells.get("note", "")
    batch = question.batch if "batch" in workload.symbols else None
    seq = question.seq if "seq" in workload.symbols else None
    found = memory_of(workload, batch, seq, gpu=question.gpu)
    on_device = "allocated" not in note
    predicted = found.total_bytes if on_device else found.allocated_bytes
    if question.cells.get("counter") == "reserved":
        predicted = found.reserved_bytes
    known = memory_data().ranges["device" if on_device else "allocated"]
    low, high = (float(np.interp(at, known.probability, known.ratio)) for at in (0.1, 0.9))
    return Residual(
        row=question.row,
        gpu=question.gpu.name,
        measured_s=value_gib * GIB,
        predicted_s=predicted,
        low_s=predicted * low,
        high_s=predicted * high,
        labels=_labels(question.cells, question.gpu),
        group=(question.cells["source"], question.cells["model"]),
        samples=question.batch,
        unit="GiB",
        scale=1.0 / GIB,
    )


def products_residual(row: int, cells: Mapping[str, str], gpu: Gpu, precision: str, value: float) -> Residual:
    """Compare the best of the square products that a benchmark of this kind tries."""
    if "square matmul" not in cells["model"]:
        raise BadValue(f"unknown product: {cells['model']}", hint="try `square matmul 1024..10240, best`")
    seconds, flops = _best(gpu, precision)
    usual = range_of(known_generation=knows(gpu), known_stack=True, bound="compute", procedure="")
    width = as_known(usual, gpu, known_stack=True)
    return Residual(
        row=row,
        gpu=gpu.name,
        measured_s=flops / (value * _TERA),
        predicted_s=seconds,
        low_s=seconds * width.low,
        high_s=seconds * width.high,
        bound="compute",
        labels=_labels(cells, gpu),
        setup=(cells["source"], cells["model"], precision),
        group=(cells["source"], cells["model"]),
        work=(flops, 0.0),
        rates=(gpu.best_peak(precision) or gpu.best_peak("fp32") or 1.0, gpu.memory_bytes_per_s),
        unit="TFLOP_per_s",
        scale=flops / _TERA,
        is_rate=True,
    )


@cache
def _best(gpu: Gpu, precision: str) -> tuple[float, float]:
    """Return the seconds and FLOPs of the square product with the highest rate, in the most common software."""
    side, width = _SIDES[:, None], DTYPE_BYTES["fp32" if precision == "tf32" else precision]
    columns = dict.fromkeys(("m", "n", "k"), side)
    columns |= {"batch": np.ones_like(side), "aligned": np.ones_like(side), "dtype": np.full_like(side, dtype_code(precision))}
    columns |= {"read": 2 * side**2 * width, "written": side**2 * width}
    ops = Ops(count=len(_SIDES), groups=(Group(kind="matmul", rows=np.arange(len(_SIDES)), columns=columns),))
    columns_of_gpu = gpus_of([gpu])
    seconds = times(ops, columns_of_gpu, load_constants()).seconds * default_stack().factor
    seconds = np.maximum(seconds, floors_s(ops, columns_of_gpu))[:, 0]
    best = int(np.argmax(_SIDES**3 / seconds))
    return float(seconds[best]), float(2.0 * _SIDES[best] ** 3)


def _labels(cells: Mapping[str, str], gpu: Gpu) -> dict[str, str]:
    return {"gpu": gpu.name, "model": cells["model"], "family": "", "source": cells["source"]}
