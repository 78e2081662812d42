"""Predicts the GPU memory that a step needs, as three counters would show it.

    allocated    what tensors and libraries request at the peak               torch.cuda.max_memory_allocated
    reserved     what the allocator holds for those requests, simulated       torch.cuda.max_memory_reserved
    device       with the CUDA context, libraries and a desktop               nvidia-smi

The allocated peak is array arithmetic. The allocator is simulated at a few batches (powers of eight) and interpolated between
them, so a search over batches costs only a handful of simulations, and a larger batch never needs less memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from weakref import WeakKeyDictionary

import numpy as np

from gpuwise.hardware.types import Gpu
from gpuwise.step.memory.allocator import OutOfMemory, TorchSettings, make_allocator
from gpuwise.step.memory.bfc import BfcAllocator, BfcSettings
from gpuwise.step.memory.lifetimes import (
    MemoryData,
    convolved_bytes,
    framework_bytes,
    library_buffers,
    lives_of,
    memory_data,
    peak_bytes,
    preallocated_bytes,
    program_of,
    reserved_after,
    tensor_bytes_of,
)
from gpuwise.step.memory.replay import replay
from gpuwise.workload.model.types import CATEGORIES, PHASES, Form, Workload, no_collection

__all__ = [
    "Memory",
    "MemorySetting",
    "Moment",
    "around_bytes",
    "by_module",
    "largest_batch",
    "memory_of",
    "reserved_bytes_of",
    "survives",
    "upper_ratio",
]

_ROW = {name: row for row, name in enumerate(CATEGORIES)}
_FRAGMENTED = 3.0  # times the bytes in use: no model in the zoo makes an allocator hold this much
_ANCHOR = 8
_LARGEST = 2**31 - 1
_SURE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySetting:
    """How memory is managed: the allocator and its settings, a desktop on the same GPU, several GPUs in one job."""

    allocator: TorchSettings | BfcSettings = field(default_factory=TorchSettings)
    display: bool = False
    gpu_count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When the peak occurs: the call number, its op, the module it runs for and the phase of the step."""

    call: int
    op: str
    module: str
    phase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes on the device at the peak of a step, by category; the first six make up the total.

    `activation_bytes` is everything else held by tensors; inputs, temporaries and the key-value cache are also given separately.
    `workspace_bytes` is what libraries borrow plus what the allocator holds beyond the requests. Nine in ten measured jobs need
    less than `high_bytes`, and nine in ten need more than `low_bytes`, which also allows for a framework that loads few kernels.
    """

    weight_bytes: float
    gradient_bytes: float
    optimizer_bytes: float
    activation_bytes: float
    workspace_bytes: float
    framework_bytes: float
    input_bytes: float = 0.0
    temporary_bytes: float = 0.0
    kv_cache_bytes: float = 0.0
    communication_bytes: float = 0.0
    allocated_bytes: float = 0.0
    reserved_bytes: float = 0.0
    low_bytes: float = 0.0
    high_bytes: float = 0.0
    peak: Moment | None = None

    @property
    def total_bytes(self) -> float:
        return (
            self.weight_bytes
            + self.gradient_bytes
            + self.optimizer_bytes
            + self.activation_bytes
            + self.workspace_bytes
            + self.framework_bytes
        )

    @property
    def update_bytes(self) -> float:
        """Temporaries of the optimizer, if the peak is in its update: part of `activation_bytes`, although they are not
        activations.
        """
        return self.temporary_bytes if self.peak is not None and self.peak.phase == "optimizer" else 0.0

    @property
    def device_bytes(self) -> float:
        """The memory that nvidia-smi would show."""
        return self.total_bytes

    def fits_probability(self, limit_bytes: float) -> float:
        """Return the probability that the job runs in this much memory, based on the errors for jobs not used in the fit."""
        known = memory_data().ranges["device"]
        ratio = math.log(limit_bytes / self.total_bytes) if limit_bytes > 0 else -math.inf
        return float(np.interp(ratio, np.log(known.ratio), known.probability, left=0.0, right=1.0))


@cache
def upper_ratio() -> float:
    """Return the ratio of actual to predicted memory that nine in ten steps do not exceed."""
    known = memory_data().ranges["device"]
    return float(np.interp(_SURE, known.probability, known.ratio))


def memory_of(
    workload: Workload,
    batch: float | None = None,
    seq: float | None = None,
    *,
    gpu: Gpu | None = None,
    setting: MemorySetting | None = None,
    data: MemoryData | None = None,
) -> Memory:
    """Return the peak of one step at one size. The GPU affects what frameworks and libraries take, but not the tensors."""
    setting, data = setting or MemorySetting(), data or memory_data()
    lives = lives_of(workload)
    tensor_bytes = tensor_bytes_of(workload, batch, seq)
    live = lives.live(tensor_bytes)
    call = int(np.argmax(live.sum(axis=0)))
    held = live[:, call]
    allocated = float(held.sum()) + sum(_kept(workload, gpu))
    reserved = _held_bytes(workload, batch, seq, gpu, setting, data)
    framework = around_bytes(gpu, setting, data)
    total, known = reserved + framework, data.ranges["device"]
    low, high = (float(np.interp(at, known.probability, known.ratio)) for at in (0.1, _SURE))
    lazy = max(0.0, framework_bytes(gpu, data) - data.value("framework_least_bytes"))
    return Memory(
        weight_bytes=float(held[_ROW["weight"]]),
        gradient_bytes=float(held[_ROW["gradient"]]),
        optimizer_bytes=float(held[_ROW["optimizer"]]),
        activation_bytes=float(sum(held[_ROW[name]] for name in ("activation", "input", "temporary"))),
        workspace_bytes=reserved - float(held.sum()),
        framework_bytes=framework,
        input_bytes=float(held[_ROW["input"]]),
        temporary_bytes=float(held[_ROW["temporary"]]),
        kv_cache_bytes=float(held[_ROW["input"]]) if workload.options.get("phase") else 0.0,
        communication_bytes=_communication_bytes(setting, data),
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        low_bytes=max(allocated, total * low - lazy),
        high_bytes=total * high,
        peak=_moment(workload, call),
    )


def reserved_bytes_of(
    workload: Workload, batch: float | None = None, seq: float | None = None, *, gpu: Gpu | None = None
) -> float:
    """Return the bytes that PyTorch's allocator holds after a step: `memory_of(...).reserved_bytes`, without the breakdown."""
    return _held_bytes(workload, batch, seq, gpu, MemorySetting(), memory_data())


def largest_batch(
    workload: Workload,
    limit_bytes: float,
    seq: float | None = None,
    *,
    gpu: Gpu | None = None,
    setting: MemorySetting | None = None,
) -> int:
    """Return the exact largest batch whose step stays within this many bytes, or 0 if none does."""
    if "batch" not in workload.symbols:
        fits = memory_of(workload, None, seq, gpu=gpu, setting=setting).total_bytes <= limit_bytes
        return workload.batch if fits else 0

    setting, data = setting or MemorySetting(), memory_data()
    around = around_bytes(gpu, setting, data)

    def fitting(batch: int) -> bool:
        return _held_bytes(workload, batch, seq, gpu, setting, data) + around <= limit_bytes

    if not fitting(1):
        return 0
    high = 2
    while high < _LARGEST and fitting(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fitting(middle) else (low, middle)
    return low


def survives(
    workload: Workload,
    limit_bytes: float,
    batch: float | None = None,
    seq: float | None = None,
    *,
    gpu: Gpu | None = None,
    setting: MemorySetting | None = None,
) -> bool:
    """Return whether the step runs on a device with this much memory if PyTorch's allocator releases cached blocks when it must,
    which is slow. With more than `total_bytes`, the step always runs; with less than `allocated_bytes` plus the framework's
    memory, it never does.
    """
    setting, data = setting or MemorySetting(), memory_data()
    borrowed = data.value("convolution_share") * convolved_bytes(workload, batch, seq)
    room = limit_bytes - around_bytes(gpu, setting, data) - borrowed
    torch = setting.allocator if isinstance(setting.allocator, TorchSettings) else TorchSettings()
    try:
        replay(lives_of(workload), tensor_bytes_of(workload, batch, seq), make_allocator(torch, room), _kept(workload, gpu))
    except OutOfMemory:
        return False
    return True


def by_module(
    workload: Workload, batch: float | None = None, seq: float | None = None, *, depth: int | None = None
) -> list[tuple[str, float]]:
    """Return the bytes in use at the peak by the module that created them (for weights, the first to read them), largest
    first.
    """
    lives = lives_of(workload)
    tensor_bytes = tensor_bytes_of(workload, batch, seq)
    call = int(np.argmax(lives.live(tensor_bytes).sum(axis=0)))
    owner: dict[int, int] = {}
    for entry in workload.calls:
        for buffer in (*entry.writes, *entry.reads):
            owner.setdefault(buffer, entry.module)
    found: dict[str, float] = {}
    for number in np.flatnonzero((lives.born <= call) & (call < lives.died)).tolist():
        module = workload.modules[owner[number]] if number in owner else ""
        name = ".".join(module.split(".")[:depth])
        found[name] = found.get(name, 0.0) + float(tensor_bytes[lives.tensor[number]])
    return sorted(found.items(), key=lambda entry: -entry[1])


def _moment(workload: Workload, call: int) -> Moment | None:
    if not workload.calls:
        return None
    calls = workload.calls
    op, module, phase = (int(column[call]) for column in (calls.op, calls.module, calls.phase))
    return Moment(call=call, op=workload.ops[op].name, module=workload.modules[module], phase=PHASES[phase])


def _kept(workload: Workload, gpu: Gpu | None) -> tuple[float, ...]:
    lives = lives_of(workload)
    return library_buffers(gpu, products=lives.multiplies, training=lives.trains)


def around_bytes(gpu: Gpu | None, setting: MemorySetting, data: MemoryData | None = None) -> float:
    """Return the bytes that the device holds besides the allocator's memory."""
    data = data or memory_data()
    display = data.value("display_bytes") if setting.display else 0.0
    return framework_bytes(gpu, data) + _communication_bytes(setting, data) + display


def _communication_bytes(setting: MemorySetting, data: MemoryData) -> float:
    return data.value("collective_bytes") if setting.gpu_count > 1 else 0.0


def _held_bytes(
    workload: Workload, batch: float | None, seq: float | None, gpu: Gpu | None, setting: MemorySetting, data: MemoryData
) -> float:
    """Return the bytes that the allocator holds for tensors and libraries."""
    kept = sum(_kept(workload, gpu))
    if isinstance(setting.allocator, BfcSettings) and not setting.allocator.growth and gpu is not None:
        taken = preallocated_bytes(gpu, setting.allocator.framework, setting.allocator.fraction)
        free = gpu.usable_memory_bytes - around_bytes(gpu, setting, data)
        return max(min(taken, free), peak_bytes(workload, batch, seq) + kept)
    known, share = _results.setdefault(workload.form, {}), data.value("convolution_share")
    key = ("held", *_size(workload, batch, seq), setting.allocator, share)
    if key not in known:  # the same for every GPU
        cached = max(peak_bytes(workload, batch, seq), _cached_bytes(workload, batch, seq, setting.allocator))
        known[key] = cached + share * convolved_bytes(workload, batch, seq)
    return known[key] + kept


def _cached_bytes(workload: Workload, batch: float | None, seq: float | None, allocator: TorchSettings | BfcSettings) -> float:
    """Simulate at the powers of eight around this batch, and interpolate by what is in use. Fragmentation never lowers the
    result.
    """
    if "batch" not in workload.symbols:
        return _simulated(workload, None, seq, allocator)
    size = float(workload.batch if batch is None else batch)
    steps = math.floor(math.log(size, _ANCHOR) + 1e-9)
    low = _ANCHOR**steps
    peaks = [peak_bytes(workload, _ANCHOR**step, seq) for step in range(steps + 1)]
    matter = [step for step, peak in enumerate(peaks) if _FRAGMENTED * peak >= peaks[-1]]  # others cannot hold as much
    lower = max(_simulated(workload, _ANCHOR**step, seq, allocator) for step in matter)
    if size == low:
        return lower
    upper = max(lower, _simulated(workload, low * _ANCHOR, seq, allocator))
    start, here, end = (peak_bytes(workload, at, seq) for at in (low, size, low * _ANCHOR))
    part = (here - start) / (end - start) if end > start else 0.0
    return lower + part * (upper - lower)


_results: WeakKeyDictionary[Form, dict[object, float]] = WeakKeyDictionary()


def _size(workload: Workload, batch: float | None, seq: float | None) -> tuple[float, float | None]:
    """Return batch and sequence, by default those of the workload."""
    return workload.batch if batch is None else batch, workload.seq if seq is None else seq


def _simulated(workload: Workload, batch: float | None, seq: float | None, allocator: TorchSettings | BfcSettings) -> float:
    """Return the bytes that the allocator holds after replaying a few steps. Each case is simulated once."""
    known, key = _results.setdefault(workload.form, {}), ("simulated", *_size(workload, batch, seq), allocator)
    if key not in known:
        lives, tensor_bytes = lives_of(workload), tensor_bytes_of(workload, batch, seq)
        with no_collection():
            if allocator == TorchSettings():
                known[key] = float(reserved_after(*program_of(lives, tensor_bytes)))
            else:
                made = make_allocator(allocator) if isinstance(allocator, TorchSettings) else BfcAllocator()
                known[key] = replay(lives, tensor_bytes, made).reserved_bytes
    return known[key]
