"""Turns rows about single operators in published tables into the columns that kernel models read, and predicts their times.

Times measured from Python include the host: a launch takes as long as the host or the kernel, whichever is longer. Tables that
replay a CUDA graph exclude it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuwise.core.errors import GpuwiseError
from gpuwise.evidence.fits import Fit, shipped
from gpuwise.evidence.ranges import operator_range
from gpuwise.evidence.types import Residual, Skipped, Table
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.limits import CLASSES, longer
from gpuwise.kernels.times import gpus_of, times
from gpuwise.kernels.types import Array, Group, Ops, dtype_code

__all__ = ["Batch", "batches", "fitted_table", "floor_key", "score_operators"]

_SMOOTH = 6.0
_MOST = 1e30  # plausible limits for the bytes, FLOPs or seconds of a row
_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0}
# Products of serving stacks: the type they compute in, bytes per activation and per weight. Results are in 16 bits.
_SERVED = {
    "bf16": ("bf16", 2.0, 2.0),
    "fp8": ("fp8", 1.0, 1.0),
    "fp8_block": ("fp8", 1.0, 1.0),
    "nvfp4": ("fp4", 0.5625, 0.5625),  # one byte of scale per 16 values
    "int8_wo": ("bf16", 2.0, 1.0),
    "int4_wo": ("bf16", 2.0, 0.5),
    "int8_smoothquant": ("int8", 1.0, 1.0),
}
_CLASS_OF = {"softmax": "softmax", "layernorm": "row_norm"}
_TWO_INPUTS = ("add", "mul", "div", "pow")
_GATES = {"lstm": 4.0, "gru": 3.0}
_PASSES = {"fwd": 0.0, "bwd-data": 1.0, "bwd-weights": 2.0}
_DEEPBENCH_TYPES = {"fp32": "fp32", "fp16 in, mixed math": "fp16"}
_FITTED_TABLE = {"ops_fp32": "fp32", "gemm_lowp": "lowp/{name}", "attention": "attention", "deepbench": "deepbench"}
# DeepBench's P100 reaches 9.1 TFLOP/s: 98% of the PCIe card's peak, but 86% of the SXM module's, as usual for other cards.
_MEANT = {("deepbench", "P100"): "P100 SXM 16GB"}
Columns = dict[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows of one table on one GPU that share one kernel model."""

    table: str
    name: str
    gpu: Gpu
    rows: Sequence[int]
    kind: str
    columns: Columns
    measured_s: Array
    flops: Array

    @property
    def ops(self) -> Ops:
        count = len(self.rows)
        return Ops(count=count, groups=(Group(kind=self.kind, rows=np.arange(count), columns=self.columns),))


def batches(table: Table) -> tuple[list[Batch], Skipped]:
    """Return the rows of an operator table in batches, and why others are left out."""
    reasons, sets = Skipped(), defaultdict(list)
    for number in table.usable(reasons):
        key = _KEYS[table.kind](table.row(number))
        if isinstance(key, str):
            reasons.add(number, key)
        else:
            sets[key].append(number)
    found = []
    for (gpu_name, name), rows in sets.items():
        try:
            gpu = load_catalog().find(_MEANT.get((table.kind, gpu_name), gpu_name)).gpu
        except GpuwiseError:
            for number in rows:
                reasons.add(number, f"unknown GPU {gpu_name}")
            continue
        batch = _batch(table, name, gpu, rows)
        for number in sorted({*rows} - {*batch.rows}):
            reasons.add(number, "a field that is not a number, or is out of range")
        if batch.rows:
            found.append(batch)
    return found, reasons


def _batch(table: Table, name: str, gpu: Gpu, rows: Sequence[int]) -> Batch:
    """Return a batch of those rows whose sizes and time are plausible."""
    cells = {column: [values[row] for row in rows] for column, values in table.columns.items()}
    with np.errstate(all="ignore"):
        kind, columns, flops = _COLUMNS[table.kind](name, defaultdict(lambda: [""] * len(rows), cells))
        measured = _numbers(cells["time_ms" if table.kind == "deepbench" else "latency_ms"]) / 1e3
        shaped = {column: np.broadcast_to(np.asarray(value, float), (len(rows),)) for column, value in columns.items()}
        good = (measured > 0) & (shaped["read"] > 0) & (shaped["written"] > 0)
        for values in (measured, flops, *shaped.values()):
            good &= (values >= 0) & (values < _MOST)
    return Batch(
        table=table.kind,
        name=name,
        gpu=gpu,
        rows=[row for row, usable in zip(rows, good, strict=True) if usable],
        kind=kind,
        columns={column: values[good].reshape(-1, 1) for column, values in shaped.items()},
        measured_s=measured[good],
        flops=np.broadcast_to(flops, good.shape)[good],
    )


def fitted_table(batch: Batch) -> str:
    """Return the name under which this batch has its own factor and start time."""
    if batch.name == "conv2d":
        return "fp32/conv2d"  # the software chooses which cuDNN algorithm to request
    return _FITTED_TABLE[batch.table].format(name=batch.name)


def floor_key(table: str, name: str) -> str:
    """Return the name under which an operator's shortest time is stored, regardless of its size."""
    return f"{table}/{name}"


def score_operators(found: Sequence[Batch], fit: Fit | None = None) -> list[Residual]:
    """Predict every row, with this fit or the shipped one."""
    fit = fit or shipped()
    answers = []
    for batch in found:
        table = fitted_table(batch)
        seconds = times(batch.ops, gpus_of([batch.gpu]), fit.constants).seconds[:, 0]
        seconds = seconds * fit.operator_factor.get(table, 1.0) + fit.operator_start_s.get(table, 0.0)
        seconds = longer(seconds, np.array(fit.operator_floor_s.get(floor_key(batch.table, batch.name), 0.0)), _SMOOTH)
        width = operator_range(batch.table, batch.name)
        for place, row in enumerate(batch.rows):
            answers.append(
                Residual(
                    row=row,
                    gpu=batch.gpu.name,
                    measured_s=float(batch.measured_s[place]),
                    predicted_s=float(seconds[place]),
                    low_s=float(seconds[place]) * width.low,
                    high_s=float(seconds[place]) * width.high,
                    labels={"gpu": batch.gpu.name, "family": batch.name, "source": batch.table},
                    group=(batch.table, batch.name),
                    work=(float(batch.flops[place]), _moved(batch.columns, place)),
                    rates=(batch.gpu.best_peak(_rate(batch)) or 1.0, batch.gpu.memory_bytes_per_s),
                )
            )
    return sorted(answers, key=lambda entry: entry.row)


def _moved(columns: Columns, place: int) -> float:
    return float(columns["read"][place, 0] + columns["written"][place, 0])


def _rate(batch: Batch) -> str:
    """Return the type whose peak the simple rules use for this batch."""
    if batch.table in ("gemm_lowp", "attention"):
        return _SERVED[batch.name][0] if batch.table == "gemm_lowp" else "bf16"
    return "fp16" if "fp16" in batch.name else "fp32"


def _numbers(values: Sequence[Any]) -> Array:
    """Return the values as numbers: empty cells are zero, and non-numeric ones are NaN."""
    return np.array([_number(value) if value not in ("", None) else 0.0 for value in values])


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


# ---------------------------------------------------------------- which rows belong together


def _fp32_key(cells: Mapping[str, Any]) -> tuple[str, str] | str:
    return (str(cells["gpu"]), str(cells["op"]))


def _gemm_key(cells: Mapping[str, Any]) -> tuple[str, str] | str:
    dtype = str(cells["dtype"])
    return (str(cells["gpu"]), dtype) if dtype in _SERVED else f"no model for {dtype} matrix products"


def _attention_key(cells: Mapping[str, Any]) -> tuple[str, str] | str:
    types = {str(cells.get("attn_dtype")), str(cells.get("kv_dtype"))} - {"bf16", "fp8"}
    return f"no model for attention in {types.pop()}" if types else (str(cells["gpu"]), str(cells["phase"]))


def _deepbench_key(cells: Mapping[str, Any]) -> tuple[str, str] | str:
    dtype = _DEEPBENCH_TYPES.get(str(cells["precision"]))
    kind = str(cells["kind"])
    if kind not in ("gemm", "conv", "rnn"):
        return f"{kind} is not a dense operator"
    if dtype is None:
        return f"precision {cells['precision']}"
    if str(cells["pass"]) not in (_PASSES if kind == "conv" else (*_PASSES, "bwd")):
        return f"unknown pass {cells['pass']}"
    if kind == "rnn" and cells["pass"] == "bwd-weights":
        return "weight gradients of RNNs, timed separately"
    return (str(cells["gpu"]), f"{kind}/{dtype}/{cells['pass']}")


_KEYS: Mapping[str, Callable[[Mapping[str, Any]], tuple[str, str] | str]] = {
    "ops_fp32": _fp32_key,
    "gemm_lowp": _gemm_key,
    "attention": _attention_key,
    "deepbench": _deepbench_key,
}


# ---------------------------------------------------------------- columns


def _product(
    b: Array, m: Array, n: Array, k: Array, dtype: str, sizes: tuple[float, float, float] | None = None
) -> tuple[str, Columns, Array]:
    left, right, result = sizes or (_BYTES[dtype],) * 3
    columns = {
        "batch": b,
        "m": m,
        "n": n,
        "k": k,
        "dtype": np.full_like(m, dtype_code(dtype)),
        "aligned": ((n % 8 == 0) & (k % 8 == 0)).astype(float),
        "read": b * (m * k * left + k * n * right),
        "written": b * m * n * result,
    }
    return "matmul", columns, 2 * b * m * n * k


def _window(
    n: Array, c: Array, k: Array, taps: Array, inside: Array, outside: Array, dtype: str, which: float, strided: Array
) -> Any:
    size = _BYTES[dtype]
    x, w, y = n * c * inside * size, c * k * taps * size, n * k * outside * size
    read = (x + w, y + w, x + y)[int(which)]
    columns = {
        "n": n,
        "c_in": c,
        "c_out": k,
        "kernel": taps,
        "out_positions": outside,
        "in_positions": inside,
        "dtype": np.full_like(n, dtype_code(dtype)),
        "groups": np.ones_like(n),
        "pass": np.full_like(n, which),
        "strided": strided.astype(float),
        "nhwc": np.zeros_like(n),
        "depthwise": np.zeros_like(n),
        "old": np.zeros_like(n),
        "read": read,
        "written": (y, x, w)[int(which)],
    }
    return "conv", columns, 2 * n * c * k * taps * outside


def _fp32(name: str, cells: Mapping[str, Sequence[Any]]) -> Any:
    def cell(column: str) -> Array:
        return _numbers(cells[column])

    if name in ("linear", "bmm"):
        b, m = cell("b"), cell("m")
        return _product(
            np.ones_like(b) if name == "linear" else b, b * m if name == "linear" else m, cell("n"), cell("k"), "fp32"
        )
    if name == "conv2d":
        side, size, stride = cell("kernel"), cell("size"), cell("stride")
        out = np.floor((size + 2 * cell("padding") - side) / stride) + 1
        return _window(cell("b"), cell("in_ch"), cell("out_ch"), side**2, size**2, out**2, "fp32", 0.0, stride > 1)
    elements = cell("b") * cell("h") * 4.0
    columns = {
        "class": np.full_like(elements, CLASSES.index(_CLASS_OF.get(name, "elementwise"))),
        "read": elements * (2 if name in _TWO_INPUTS else 1),
        "written": elements,
        "launches": np.ones_like(elements),
        "looked": np.zeros_like(elements),
    }
    return "memory_bound", columns, np.zeros_like(elements)


def _gemm(name: str, cells: Mapping[str, Sequence[Any]]) -> Any:
    m = _numbers(cells["m"])
    dtype, activation, weight = _SERVED[name]
    return _product(np.ones_like(m), m, _numbers(cells["n"]), _numbers(cells["k"]), dtype, (activation, weight, 2.0))


def _attention(name: str, cells: Mapping[str, Sequence[Any]]) -> Any:
    b, q, kv, heads, kv_heads, width = (
        _numbers(cells[column]) for column in "batch q_len kv_len heads kv_heads head_dim".split()
    )
    window = _numbers(cells["window"]) if "window" in cells else np.zeros_like(b)
    windowed = (window > 0) & (window < kv)
    seen = np.where(windowed, window, kv)  # the most keys a row sees; with a window, nearly every row sees this many
    causal = (q > 1) & ~windowed
    size = np.where(np.array([str(value) == "fp8" for value in cells["kv_dtype"]]), 1.0, 2.0)
    columns = {
        "batch": b,
        "heads": heads,
        "kv_heads": kv_heads,
        "q_len": q,
        "kv_len": np.where(windowed & (q > 1), seen * (1 - seen / (2 * kv)), seen),  # the first rows see fewer
        "head_dim": width,
        "value_dim": width,
        "dtype": np.array([float(dtype_code(str(value))) for value in cells["attn_dtype"]]),
        "backward": np.zeros_like(b),
        "causal": causal.astype(float),
        "unfused": np.zeros_like(b),
        "masked": np.zeros_like(b),
        "read": b * width * (2 * q * heads + 2 * size * np.where(q > 1, kv, seen) * kv_heads),
        "written": 2 * b * q * heads * width,
    }
    return "attention", columns, 4 * b * heads * q * seen * width * np.where(causal, 0.5, 1.0)


def _deepbench(name: str, cells: Mapping[str, Sequence[Any]]) -> Any:
    kind, dtype, which = name.split("/")

    def cell(column: str) -> Array:
        return _numbers(cells[column])

    if kind == "gemm":
        m = cell("m")
        return _product(np.ones_like(m), m, cell("n"), cell("k"), dtype)
    if kind == "conv":
        wide = np.floor((cell("w") + 2 * cell("pad_w") - cell("s")) / cell("stride_w")) + 1
        high = np.floor((cell("h") + 2 * cell("pad_h") - cell("r")) / cell("stride_h")) + 1
        strided = cell("stride_w") * cell("stride_h") > 1
        sizes = (cell("n"), cell("c"), cell("k"), cell("s") * cell("r"), cell("w") * cell("h"), wide * high)
        return _window(*sizes, dtype, _PASSES[which], strided)
    hidden, batch, steps, size = cell("hidden"), cell("n"), cell("timesteps"), _BYTES[dtype]
    gates = np.array([_GATES.get(str(value).lower(), 1.0) for value in cells["cell"]])
    one = np.ones_like(hidden)
    columns = {
        "steps": steps,
        "batch": batch,
        "input": hidden,
        "hidden": hidden,
        "layers": one,
        "directions": one,
        "dtype": one * dtype_code(dtype),
        "gates": gates,
        "backward": one * (which == "bwd"),  # `bwd-data` is one half of it: as many products as the forward pass
        "width": one * size,
        "read": size * steps * batch * hidden,
        "written": size * steps * batch * hidden * (1 + gates),
    }
    return "rnn", columns, 4 * steps * batch * gates * hidden * hidden


_COLUMNS: Mapping[str, Callable[[str, Mapping[str, Sequence[Any]]], Any]] = {
    "ops_fp32": _fp32,
    "gemm_lowp": _gemm,
    "attention": _attention,
    "deepbench": _deepbench,
}
