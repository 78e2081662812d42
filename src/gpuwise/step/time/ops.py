"""From a workload at given sizes to the columns that kernel models read. Which kernel software would choose is decided here.

Only distinct ops are priced; `counts` says how often each runs. Several sizes are laid one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuwise.kernels.memory_bound import CLASSES
from gpuwise.kernels.types import Array, Group, Ops, dtype_code
from gpuwise.step.time.cold import cold_bytes
from gpuwise.step.time.layout import lays_channels_last
from gpuwise.workload.model.evaluate import op_bytes, product_values
from gpuwise.workload.model.types import DTYPE_BYTES, KINDS, Op, Workload

__all__ = ["Choices", "ops_of"]

_PASSES = {"forward": 0.0, "data": 1.0, "weight": 2.0}
_GATES = {"lstm": 4.0, "gru": 3.0}
_TENSORS_A_LAUNCH = 50.0  # a multi-tensor kernel takes a few dozen tensors at a time
_RESIZES = ("upsample_", "_upsample_", "im2col")
_SAMPLERS = ("grid_sampler", "torchvision::roi_align", "torchvision::_roi_align")  # read where another tensor says
_CLASS = {name: float(place) for place, name in enumerate(CLASSES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the software decides: whether fp32 products may run as TF32, whether attention is one kernel, the image layout, and
    whether a compiler may choose that."""

    tf32: bool = False
    tf32_convolutions: bool = False
    fused_attention: bool = True
    nhwc: bool | None = None
    lays_out: bool = False


def ops_of(workload: Workload, batch: Any = None, seq: Any = None, choices: Choices | None = None) -> Ops:
    """All distinct ops at every size given: row `point * ops + op`."""
    chosen = choices or Choices()
    values = product_values(workload, batch, seq)
    if chosen.lays_out and lays_channels_last(workload, values[0]):
        chosen = replace(chosen, nhwc=True)
    read, written = op_bytes(workload, values)
    points, count = read.shape
    cold = cold_bytes(workload)
    members: dict[str, list[int]] = {}
    for place, op in enumerate(workload.ops):
        members.setdefault(op.kind if op.kind in _COLUMNS else "memory_bound", []).append(place)
    groups = []
    for kind, places in members.items():
        chosen_ops = [workload.ops[place] for place in places]
        extra = _COLUMNS[kind](chosen_ops, chosen) if kind in _COLUMNS else _memory_bound(chosen_ops, chosen, workload.mode)
        columns: dict[str, Array] = {
            name: np.tile(np.asarray(column, dtype=np.float64), points)[:, None] for name, column in extra.items()
        }
        columns |= _sizes([workload.ops[place] for place in places], values)
        columns |= {"read": read[:, places].reshape(-1, 1), "written": written[:, places].reshape(-1, 1)}
        if kind in ("conv", "matmul"):
            columns["cold"] = np.tile(cold[places], points)[:, None]
            columns["weights"] = np.full_like(columns["cold"], float(workload.parameters))
        if kind == "conv":
            columns["depthwise"] = ((columns["groups"] > 1) & (columns["groups"] >= columns["c_in"])).astype(float)
        if kind == "matmul":
            columns["aligned"] = ((columns["n"] % 8 == 0) & (columns["k"] % 8 == 0)).astype(float)
        if kind == "memory_bound":
            columns["launches"] = _launches([workload.ops[place] for place in places], values)
            columns["looked"] = _looked([workload.ops[place] for place in places], values)
        rows = (np.arange(points)[:, None] * count + np.array(places)[None, :]).ravel()
        groups.append(Group(kind=kind, rows=rows, columns=columns))
    return Ops(count=points * count, groups=tuple(groups))


def _sizes(ops: Sequence[Op], values: Array) -> dict[str, Array]:
    """The named sizes of ops of one kind; memory-bound ops of several kinds have none in common."""
    kinds = {op.kind for op in ops}
    if len(kinds) != 1 or next(iter(kinds)) not in _COLUMNS:
        return {}
    names = KINDS[next(iter(kinds))]
    return {name: values[:, [op.sizes[place] for op in ops]].reshape(-1, 1) for place, name in enumerate(names)}


def _code(op: Op, choices: Choices) -> float:
    return float(dtype_code("tf32" if choices.tf32 and op.dtype == "fp32" else op.dtype))


def _matmul(ops: Sequence[Op], choices: Choices) -> dict[str, Any]:
    return {"dtype": [_code(op, choices) for op in ops]}


def _conv(ops: Sequence[Op], choices: Choices) -> dict[str, Any]:
    def layout(op: Op) -> bool:
        return op.attrs["layout"] == "nhwc" if choices.nhwc is None else choices.nhwc

    return {
        "dtype": [_code(op, replace(choices, tf32=choices.tf32 or choices.tf32_convolutions)) for op in ops],
        "groups": [op.attrs["groups"] for op in ops],
        "pass": [_PASSES[str(op.attrs["pass"])] for op in ops],
        "strided": [_is_strided(op) for op in ops],
        "nhwc": [layout(op) for op in ops],
    }


def _is_strided(op: Op) -> bool:
    stride = op.attrs["stride"]
    return isinstance(stride, tuple) and any(step != 1 for step in stride)


def _attention(ops: Sequence[Op], choices: Choices) -> dict[str, Any]:
    return {
        "dtype": [_code(op, choices) for op in ops],
        "backward": [op.attrs["pass"] == "backward" for op in ops],
        "causal": [bool(op.attrs["causal"]) for op in ops],
        "unfused": [not choices.fused_attention for _ in ops],
    }


def _rnn(ops: Sequence[Op], choices: Choices) -> dict[str, Any]:
    return {
        "dtype": [_code(op, choices) for op in ops],
        "gates": [_GATES.get(str(op.attrs["cell"]), 1.0) for op in ops],
        "backward": [op.attrs["pass"] == "backward" for op in ops],
        "width": [DTYPE_BYTES[op.dtype] for op in ops],
    }


def _memory_bound(ops: Sequence[Op], choices: Choices, mode: str) -> dict[str, Any]:
    return {"class": [_CLASS[_class_of(op, choices, mode)] for op in ops]}


def _class_of(op: Op, choices: Choices, mode: str) -> str:
    backward = "_backward" if "backward" in op.name or op.attrs.get("pass") == "backward" else ""
    if op.kind == "norm":
        if "batch_norm" in op.name and mode == "infer":
            return "batch_norm_infer"  # one pass with known statistics
        if "group_norm" in op.name and choices.nhwc:
            return "group_norm_nhwc"  # rearranged before and after
        return ("batch_norm" if "batch_norm" in op.name else "row_norm") + backward
    if _is_resize(op):
        nearest = "nearest" in op.name or op.name == "im2col"
        return "copy" if not op.name.startswith(_SAMPLERS) and (nearest or not backward) else "index"
    if op.kind in ("pool", "embedding"):
        return op.kind + backward
    return op.kind if op.kind in _CLASS else "other"


def _launches(ops: Sequence[Op], values: Array) -> Array:
    """Kernels of a call: what a compiler said, lists of tensors by the dozen, else one."""
    columns = []
    for op in ops:
        if op.kind == "optimizer":
            columns.append(np.maximum(1.0, np.ceil(values[:, op.sizes[1]] / _TENSORS_A_LAUNCH)))
        else:
            columns.append(np.full(values.shape[0], float(op.attrs.get("launches", 1))))  # type: ignore[arg-type]
    return np.stack(columns, axis=1).reshape(-1, 1)


def _is_resize(op: Op) -> bool:
    """Whether an op of kind `pool` moves values from one grid to another: few of the image to each of the result, so that its
    bytes are what it costs. Gradients that several values give to one are added by atomics, as a scatter does."""
    return op.kind == "pool" and op.name.startswith(_RESIZES + _SAMPLERS)


def _looked(ops: Sequence[Op], values: Array) -> Array:
    """Values a pooling window looks at; nothing for other ops."""
    windows = [op.kind == "pool" and not _is_resize(op) for op in ops]
    none = np.zeros(values.shape[0])
    columns = [values[:, op.sizes[1]] * values[:, op.sizes[2]] if one else none for op, one in zip(ops, windows, strict=True)]
    return np.stack(columns, axis=1).reshape(-1, 1)


_COLUMNS: dict[str, Callable[[Sequence[Op], Choices], dict[str, Any]]] = {
    "matmul": _matmul,
    "conv": _conv,
    "attention": _attention,
    "rnn": _rnn,
}
