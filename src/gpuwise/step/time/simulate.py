"""Simulates one step on lanes: the host launches kernels and the GPU runs them, while inputs are loaded and copied.

The lanes overlap from step to step, so the longest one determines the step time. Lanes of similar length also wait for each other
now and then, so the maximum is smooth: two equal lanes make a step 12% longer than either, and a lane half as long adds hardly
anything. On a CPU, nothing overlaps with launching ops (`setting.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from gpuwise.hardware.machines import find_host
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.registry import KINDS, MODELS
from gpuwise.kernels.times import Times, floors_s, gpus_of, load_constants, times
from gpuwise.kernels.types import Choices, Constants, Group, Ops, is_needless
from gpuwise.step.time.setting import CPU_FACTOR, CPU_LAUNCH, fast_part
from gpuwise.step.types import Array, ClassShare, Setting, StepTimes
from gpuwise.workload.model.evaluate import call_counts, input_bytes, op_bytes, op_flops, product_values
from gpuwise.workload.model.types import DTYPE_BYTES, Form, Op, Workload

__all__ = ["choices_of", "cold_bytes", "lays_channels_last", "longest_s", "ops_of", "priced_ops", "simulate"]

_SMOOTH = 6.0
_ENGINE_HOST = "server"  # most engine measurements were made on it
_FAST_DEPTHWISE_SINCE = (1, 9)  # the first PyTorch whose builds have cuDNN 8.2
_PINNED_FRACTION = 0.8  # share of the link's rate that a pinned copy reaches


def simulate(
    workload: Workload,
    gpus: Sequence[Gpu],
    setting: Setting,
    *,
    batch: Any = None,
    seq: Any = None,
    power_limit_watts: float | Sequence[float] | None = None,
    constants: Constants | None = None,
    dtype: Any = np.float64,
    by_kind: bool = True,
) -> StepTimes:
    """Simulate the step at every batch (and sequence) on every GPU, under one power limit or one per GPU. `classes` stay empty
    unless requested with `by_kind`.
    """
    k = {**(constants if constants is not None else load_constants()), **setting.stack.constants}
    priced = priced_ops(
        workload, gpus, setting, batch=batch, seq=seq, power_limit_watts=power_limit_watts, constants=k, dtype=dtype
    )
    counts = call_counts(workload)
    values = product_values(workload, batch, seq)
    points = values.shape[0]
    calls = counts.sum(axis=0)
    is_cpu = np.array([gpu.is_cpu for gpu in gpus])
    seconds, start = _summed(priced.seconds, calls, points), _summed(priced.launches, calls, points)
    lanes = {
        "gpu": seconds,
        "host": np.broadcast_to(_host_s(workload, counts, setting, k) * np.where(is_cpu, CPU_LAUNCH, 1.0), seconds.shape),
        "copy": np.where(is_cpu, 0.0, _copy_s(workload, values, setting)[:, None]),
        "input": np.broadcast_to(_input_s(workload, batch, points, setting)[:, None], seconds.shape),
    }
    flops = op_flops(workload, values)
    overlapping = longest_s(lanes)
    shown = np.where(is_cpu, np.minimum(lanes["gpu"], lanes["host"]), 0.0)  # a CPU launches an op after the previous one is done
    shown = shown + setting.stack.step_s
    whole = overlapping + shown
    shares = _shares(priced, calls, lanes, start * k["kernel.start_s"] * _factors(gpus, setting))
    if is_cpu.any() or setting.stack.step_s:
        shares = {name: (share * overlapping + (shown if name == "launch" else 0.0)) / whole for name, share in shares.items()}
    return StepTimes(
        seconds=whole,
        lanes=lanes,
        shares=shares,
        classes=_classes(workload, priced, values, flops, calls) if by_kind else (),
        flops=(flops @ calls)[:, None],
        moved_bytes=(sum(op_bytes(workload, values)) @ calls)[:, None],
        op_s=priced.seconds.reshape(points, len(calls), -1),
    )


def priced_ops(
    workload: Workload,
    gpus: Sequence[Gpu],
    setting: Setting,
    *,
    batch: Any = None,
    seq: Any = None,
    power_limit_watts: float | Sequence[float] | None = None,
    constants: Constants | None = None,
    dtype: Any = np.float64,
) -> Times:
    """Return the times of every distinct op at every size with this software. The software's factor must not make an op faster
    than the GPU's limit; CPUs have no such limit.
    """
    ops = ops_of(workload, batch, seq, choices_of(setting))
    columns = gpus_of([fast_part(gpu) for gpu in gpus], power_limit_watts, dtype)
    priced = times(ops, columns, constants if constants is not None else load_constants())
    exact = columns.clock.dtype.type
    least = floors_s(ops, columns) * np.array([not gpu.is_cpu for gpu in gpus], dtype=exact)
    return replace(priced, seconds=np.maximum(priced.seconds * _factors(gpus, setting).astype(exact), least))


def _factors(gpus: Sequence[Gpu], setting: Setting) -> Array:
    """Return the factor that the software applies to the time of every op on each of these devices."""
    return np.where([gpu.is_cpu for gpu in gpus], CPU_FACTOR, setting.stack.factor)


def _summed(per_op: Array, calls: Array, points: int) -> Array:
    """(points · ops, gpus) -> (points, gpus), with each op weighted by its number of calls."""
    result: Array = np.einsum("pog,o->pg", per_op.reshape(points, len(calls), -1), calls.astype(per_op.dtype))
    return result


def longest_s(lanes: Mapping[str, Array]) -> Array:
    """Return the longest lane, slightly extended if another is nearly as long."""
    stacked = np.stack(list(lanes.values()))
    top = np.maximum(stacked.max(axis=0), 1e-12)
    longest: Array = top * ((stacked / top) ** _SMOOTH).sum(axis=0) ** (1.0 / _SMOOTH)
    return longest


def _host_s(workload: Workload, counts: Array, setting: Setting, k: Constants) -> float:
    """Return the seconds that the host needs to launch the step. The unit is one forward call of a layer; other calls cost a
    fraction or a multiple of it. Eager attention costs several, because Python reshapes queries, keys and values, and casts cost
    little, because autocast issues most of them. An engine has a cost per layer instead.
    """
    attention = np.array([op.kind == "attention" for op in workload.ops])
    if setting.stack.layer_s is not None:
        return float(
            counts[0][attention].sum() * setting.stack.layer_s * setting.host.launch_s / find_host(_ENGINE_HOST).launch_s
        )
    layer = np.array([KINDS[op.kind].is_layer for op in workload.ops]) & ~attention
    cast = np.array([op.kind == "cast" for op in workload.ops])
    slow = np.array([KINDS[op.kind].slow_backward for op in workload.ops])
    eager = setting.stack.how == "eager"  # compiled steps and graphs call kernels directly
    forward, backward, optimizer = counts
    calls = (
        forward[layer].sum()
        + (k["host.attention"] if eager else 1.0) * forward[attention].sum()
        + k["host.light"] * forward[~(layer | attention | cast)].sum()
        + k["host.cast"] * (forward + backward)[cast].sum()
        + (k["host.conv_backward"] if eager else 1.0) * backward[slow].sum()
        + k["host.backward"] * backward[~(slow | cast)].sum()
        + k["host.optimizer"] * optimizer.sum()
    )
    return float(calls * setting.host.launch_s * setting.stack.host_factor)


def _copy_s(workload: Workload, values: Array, setting: Setting) -> Array:
    if setting.link_bytes_per_s is None:
        return np.zeros(values.shape[0])
    return input_bytes(workload, values) / (setting.link_bytes_per_s * _PINNED_FRACTION)


def _input_s(workload: Workload, batch: Any, points: int, setting: Setting) -> Array:
    if setting.loader_samples_per_s is None:
        return np.zeros(points)
    size = np.broadcast_to(np.asarray(workload.batch if batch is None else batch, dtype=float), (points,))
    return size / setting.loader_samples_per_s


def _shares(priced: Times, calls: Array, lanes: dict[str, Array], start_s: Array) -> dict[str, Array]:
    """Return the fraction by which the step would shrink if one resource were slightly faster; they sum to 1.

    For lanes, this is the derivative of the smooth maximum. The GPU's part goes to compute or memory, whichever takes longer in
    each op, and to launches for the time in which kernels start and end.
    """
    stacked = np.stack(list(lanes.values()))
    weight = (stacked / np.maximum(stacked.max(axis=0), 1e-12)) ** _SMOOTH
    weight = weight / np.maximum(weight.sum(axis=0), 1e-12)
    lane = dict(zip(lanes, weight, strict=True))
    busy = np.maximum(lanes["gpu"], 1e-12)
    longer = np.where(priced.compute_s >= priced.memory_s, priced.seconds, 0.0)
    starting = np.minimum(1.0, start_s / busy)
    compute = np.minimum(1.0, _summed(longer, calls, busy.shape[0]) / busy) * (1.0 - starting)
    return {
        "compute": lane["gpu"] * compute,
        "memory": lane["gpu"] * (1.0 - starting - compute),
        "launch": lane["host"] + lane["gpu"] * starting,
        "input": lane["input"],
        "copy": lane["copy"],
        "communication": np.zeros_like(busy),
    }


def _classes(workload: Workload, priced: Times, values: Array, flops: Array, calls: Array) -> tuple[ClassShare, ...]:
    members: dict[str, list[int]] = {}
    for place, op in enumerate(workload.ops):
        members.setdefault(op.kind, []).append(place)
    read, written = op_bytes(workload, values)
    points, count = values.shape[0], len(workload.ops)

    def summed(per_op: Array, places: list[int]) -> Array:
        return _summed(per_op.reshape(points, count, -1)[:, places].reshape(points * len(places), -1), calls[places], points)

    return tuple(
        ClassShare(
            kind=kind,
            count=int(calls[places].sum()),
            seconds=summed(priced.seconds, places),
            compute_s=summed(np.where(priced.compute_s >= priced.memory_s, priced.seconds, 0.0), places),
            flops=flops[:, places] @ calls[places],
            moved_bytes=(read + written)[:, places] @ calls[places],
        )
        for kind, places in members.items()
    )


# ---------------------------------------------------------------- ops as columns
# From a workload at given sizes to the columns that kernel models read.
#
# Only distinct ops are evaluated; `counts` says how often each runs. Several sizes are concatenated. The kind of an op
# (`kernels/ops`) determines which kernel the software chooses.


def choices_of(setting: Setting) -> Choices:
    """Return the choices that this software makes for the kernels."""
    stack = setting.stack
    return Choices(
        tf32=setting.tf32,
        tf32_convolutions=setting.tf32_convolutions,
        fused_attention=stack.fused_attention,
        nhwc=setting.nhwc,
        lays_out=stack.how == "compile",
        old_depthwise=stack.framework == "torch" and stack.version < _FAST_DEPTHWISE_SINCE,
    )


_MOST_KEPT = 4  # sizes of one workload: questions about many GPUs ask the same ones again and again
_kept: WeakKeyDictionary[Form, dict[object, Ops]] = WeakKeyDictionary()


def ops_of(workload: Workload, batch: Any = None, seq: Any = None, choices: Choices | None = None) -> Ops:
    """Return all distinct ops at every given size: row `point * ops + op`."""
    chosen = replace(choices or Choices(), mode=workload.mode)
    sizes = (workload.batch if batch is None else batch, workload.seq if seq is None else seq)
    key = (chosen, *(None if size is None else np.asarray(size, dtype=float).tobytes() for size in sizes))
    known = _kept.get(workload.form, {})
    if key not in known:
        latest = list(known.items())[1 - _MOST_KEPT :]
        known = _kept[workload.form] = {**dict(latest), key: _made(workload, batch, seq, chosen)}  # other threads may be reading
    return known[key]


def _made(workload: Workload, batch: Any, seq: Any, chosen: Choices) -> Ops:
    values = product_values(workload, batch, seq)
    if chosen.lays_out and lays_channels_last(workload, values[0]):
        chosen = replace(chosen, nhwc=True)
    needed = np.array([not is_needless(op, chosen) for op in workload.ops])
    read, written = (moved * needed for moved in op_bytes(workload, values))
    points, count = read.shape
    cold = cold_bytes(workload)
    members: dict[str, list[int]] = {}
    for place, op in enumerate(workload.ops):
        members.setdefault(KINDS[op.kind].model.name, []).append(place)
    groups = []
    for model, places in members.items():
        columns = _columns([workload.ops[place] for place in places], values, chosen)
        columns |= {"read": read[:, places].reshape(-1, 1), "written": written[:, places].reshape(-1, 1)}
        if MODELS[model].reads_weights:
            columns["cold"] = np.tile(cold[places], points)[:, None]
            columns["weights"] = np.full_like(columns["cold"], float(workload.parameters))
        rows = (np.arange(points)[:, None] * count + np.array(places)[None, :]).ravel()
        groups.append(Group(kind=model, rows=rows, columns=columns))
    return Ops(count=points * count, groups=tuple(groups))


def _columns(ops: Sequence[Op], values: Array, choices: Choices) -> dict[str, Array]:
    """Return the columns that the model for these ops reads. Each kind fills in its own values, and all kinds of a model have
    the same columns.
    """
    members: dict[str, list[int]] = {}
    for place, op in enumerate(ops):
        members.setdefault(op.kind, []).append(place)
    found: dict[str, Array] = {}
    for name, places in members.items():
        kind, own = KINDS[name], [ops[place] for place in places]
        sizes = {size: values[:, [op.sizes[place] for op in own]] for place, size in enumerate(kind.sizes)}
        for column, filled in kind.columns(own, sizes, choices).items():
            if column not in found:
                found[column] = np.empty((len(values), len(ops)))
            found[column][:, places] = filled
    return {column: filled.reshape(-1, 1) for column, filled in found.items()}


# ---------------------------------------------------------------- bytes that no cache holds
# Bytes of a step that are certainly not cached when they are read: weights that each product reads once.
#
# A weight is an operand whose size depends on neither batch nor sequence. If a loop reads the same weights repeatedly (RNN
# cells), a cache may hold them, so they are not counted.

_ONCE = 1.1  # the parameters, with some margin for padding


_known: WeakKeyDictionary[Form, Array] = WeakKeyDictionary()


def cold_bytes(workload: Workload) -> Array:
    """Return the bytes of weights that one call of each op reads; computed once for all sizes of a step."""
    found = _known.get(workload.form)
    if found is None:
        found = _known[workload.form] = _found(workload)
    return found


def _found(workload: Workload) -> Array:
    found = np.zeros(len(workload.ops))
    if not workload.symbols:
        return found  # all sizes are fixed, so weights cannot be distinguished
    fixed = (workload.dims[:, 1:] == 0).all(axis=1)
    elements = np.zeros(len(workload.ops))
    for place, op in enumerate(workload.ops):
        for row in op.reads[:2] if KINDS[op.kind].model.reads_weights else ():
            dims = list(workload.products[workload.tensors[row].elements])
            if fixed[dims].all():
                size = float(np.prod(workload.dims[dims, 0]))
                elements[place] += size
                found[place] += size * DTYPE_BYTES[workload.tensors[row].dtype]
    passes = call_counts(workload) @ elements  # per phase
    return found if passes.max(initial=0.0) <= _ONCE * workload.parameters else np.zeros_like(found)


# ---------------------------------------------------------------- layout of convolutions
# The layout that a compiler chooses for a model's convolutions.
#
# torch.compile switches images to channels-last if it expects a gain (`decide_layout_opt` in `torch/_inductor/graph.py`, PyTorch
# 2.3 to 2.13). In inference, it weights the FLOPs of each kind of convolution by the speedup or slowdown that its authors
# measured. In training, a single unfavourable convolution keeps the layout unchanged.

# Time channels-last over time channels-first, from PyTorch's source.
_INFERENCE_RATIO = {"grouped": 1.358, "small": 0.783, "narrowing": 0.725, "other": 0.823}
_SMALL = 64.0


def lays_channels_last(workload: Workload, values: Array) -> bool:
    """Return whether compiling switches this model's convolutions to channels-last; `values` are its products at one size."""
    forward = call_counts(workload)[0]
    places = [place for place, op in enumerate(workload.ops) if op.kind == "conv" and forward[place]]
    if not places:
        return False
    kinds = [_kind(workload.ops[place], values) for place in places]
    if workload.mode == "train":
        return not {"grouped", "narrowing"} & set(kinds) and set(kinds) != {"small"}
    flops = op_flops(workload, values[None, :])[0, places] * forward[places]
    weighed = sum(_INFERENCE_RATIO[kind] * work for kind, work in zip(kinds, flops, strict=True))
    return bool(weighed <= flops.sum())


def _kind(op: Op, values: Array) -> str:
    size = {name: values[row] for name, row in zip(KINDS["conv"].sizes, op.sizes, strict=True)}
    groups = float(op.attrs["groups"])  # type: ignore[arg-type]
    inputs = size["c_in"] / groups  # channels of one filter
    if groups > 1 and inputs > 1:
        return "grouped"
    if size["c_out"] <= _SMALL and inputs <= _SMALL:
        return "small"
    return "narrowing" if 2 * size["c_out"] <= inputs and size["kernel"] > 1 else "other"
