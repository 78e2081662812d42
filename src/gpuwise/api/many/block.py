"""One model in one precision on many GPUs at many batches, as one block of arrays: the unit of a sweep, a pure function.

Every figure is the one `predict` gives for that point (a test holds them together); here they are worked out all at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from gpuwise.api.many.sweep_question import ANY_MODERN_GPU, SweepTask, gpus_meant
from gpuwise.api.many.versions import check_versions
from gpuwise.api.predictions import main_bound
from gpuwise.api.question import StepQuery, step_query
from gpuwise.api.widths import limited, width_of
from gpuwise.api.workloads import captured
from gpuwise.errors import GpuwiseError
from gpuwise.hardware.precisions import supported
from gpuwise.hardware.types import Gpu
from gpuwise.step.cpu import cpu_setting
from gpuwise.step.device_memory import framework_bytes, library_buffers
from gpuwise.step.least import least_s
from gpuwise.step.memory import reserved_bytes_of
from gpuwise.step.segments import slow_s
from gpuwise.step.simulate import simulate
from gpuwise.step.stacks import as_run
from gpuwise.step.types import BOUNDS, Array, Steps
from gpuwise.workload.coverage import coverage
from gpuwise.workload.evaluate import call_counts, op_bytes, product_values
from gpuwise.workload.types import Workload

__all__ = ["Block", "block_of", "decode", "lost_block"]

_AT_ONCE = 200_000  # points × ops × GPUs priced together: more leaves the caches of a CPU


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Points × GPUs, as bytes of arrays: seconds as float64 (step, low, high), memory as float64, the bound and the reason as
    numbers of `BOUNDS` and `reasons` (0: none). Where `refusal` is told nothing was predicted and the arrays are empty."""

    model: str
    mode: str
    precision: str
    seq: int | None
    batches: tuple[int, ...]
    gpus: tuple[str, ...]
    usable_bytes: tuple[float, ...]
    coverage_fraction: float
    reasons: tuple[str, ...]
    refusal: str = ""
    step_s: bytes = b""
    low_s: bytes = b""
    high_s: bytes = b""
    memory_bytes: bytes = b""
    bound: bytes = b""
    reason: bytes = b""

    def array(self, name: str) -> Array:
        """One of the arrays, points × GPUs."""
        dtype = {"bound": np.int8, "reason": np.int16}.get(name, np.float64)
        return np.frombuffer(getattr(self, name), dtype=dtype).reshape(len(self.batches), len(self.gpus))


def decode(data: bytes) -> Block:
    """A block as `block_of` wrote it."""
    return msgspec.msgpack.decode(data, type=Block)


def block_of(task: SweepTask) -> bytes:
    """The block of this task, in bytes, for it may come from another machine. A model that cannot be predicted is a block too."""
    check_versions(task.versions)
    try:
        return msgspec.msgpack.encode(_priced(task))
    except GpuwiseError as fault:
        return lost_block(task, fault.message)
    except Exception as fault:  # one odd model must not end a sweep of thousands; the row says that it is our fault
        return lost_block(task, f"gpuwise failed on it ({type(fault).__name__}: {fault}); please report it")


def lost_block(task: SweepTask, reason: str) -> bytes:
    """A block in which nothing is predicted."""
    gpus = gpus_meant(task.gpus)
    return msgspec.msgpack.encode(
        Block(
            model=task.model,
            mode=task.options.get("mode", "train"),
            precision=task.precision,
            seq=task.options.get("seq"),
            batches=task.batches,
            gpus=tuple(gpu.name for gpu in gpus),
            usable_bytes=tuple(map(_usable, gpus)),
            coverage_fraction=0.0,
            reasons=("",),
            refusal=reason,
        )
    )


def _usable(gpu: Gpu) -> float:
    return gpu.usable_memory_bytes + gpu.slow_memory_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Priced:
    """Points × GPUs."""

    step_s: Array
    low_s: Array
    high_s: Array
    memory_bytes: Array
    bound: Array


def _priced(task: SweepTask) -> Block:
    """All that can be predicted of the task; the other points have a reason."""
    query = step_query(model=task.stated, gpu=(ANY_MODERN_GPU,), precision=task.precision, **task.options)
    workload = captured(query.capture)
    gpus = gpus_meant(task.gpus)
    sizes = [size for size in task.batches if "batch" in workload.symbols or size == workload.batch]
    able = [place for place, gpu in enumerate(gpus) if workload.precision in supported(gpu)]
    reasons, reason = _reasons(task, workload, gpus, sizes, able)
    shape = (len(task.batches), len(gpus))
    arrays = {name: np.full(shape, np.nan) for name in ("step_s", "low_s", "high_s", "memory_bytes")}
    arrays["bound"] = np.zeros(shape, dtype=np.int8)
    rows = [task.batches.index(size) for size in sizes]
    for at, some in _tiles(rows, gpus, able, len(workload.ops)):
        found = _prices(workload, query, [gpus[place] for place in some], [task.batches[row] for row in at])
        for name, array in arrays.items():
            array[np.ix_(at, some)] = getattr(found, name)
    return Block(
        model=task.model,
        mode=workload.mode,
        precision=workload.precision,
        seq=workload.seq,
        batches=task.batches,
        gpus=tuple(gpu.name for gpu in gpus),
        usable_bytes=tuple(map(_usable, gpus)),
        coverage_fraction=coverage(workload).bytes_fraction,
        reasons=reasons,
        reason=reason.tobytes(),
        step_s=arrays["step_s"].tobytes(),
        low_s=arrays["low_s"].tobytes(),
        high_s=arrays["high_s"].tobytes(),
        memory_bytes=arrays["memory_bytes"].tobytes(),
        bound=arrays["bound"].tobytes(),
    )


def _tiles(
    rows: Sequence[int], gpus: Sequence[Gpu], able: Sequence[int], ops: int
) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Points and GPUs to price together: all points where they are few; CPUs apart, for they run under settings of their own."""
    room = max(1, _AT_ONCE // max(1, ops))
    high = max(1, min(len(rows), room))
    wide = max(1, room // high)
    for places in ([place for place in able if gpus[place].is_cpu is kind] for kind in (False, True)):
        for first in range(0, len(rows), high):
            for start in range(0, len(places), wide):
                yield rows[first : first + high], places[start : start + wide]


def _reasons(
    task: SweepTask, workload: Workload, gpus: Sequence[Gpu], sizes: Sequence[int], able: Sequence[int]
) -> tuple[tuple[str, ...], Array]:
    """Why points cannot be predicted: the texts, and the number of the text of each point."""
    texts = [""]
    found = np.zeros((len(task.batches), len(gpus)), dtype=np.int16)
    if len(sizes) < len(task.batches):
        texts.append(f"known at batch {workload.batch} only")
        found[[place for place, size in enumerate(task.batches) if size not in sizes]] = 1
    lacking = sorted(set(range(len(gpus))) - set(able))
    if lacking:
        texts.append(f"the GPU has no {workload.precision}")
        found[:, lacking] = len(texts) - 1
    return tuple(texts), found


def _prices(workload: Workload, query: StepQuery, gpus: Sequence[Gpu], sizes: Sequence[int]) -> _Priced:
    """These GPUs at these batches; either CPUs alone or none."""
    setting = as_run(query.setting, workload)
    points = len(sizes)
    batch = np.array(sizes, dtype=float) if "batch" in workload.symbols else None
    seq = np.full(points, float(workload.seq)) if "seq" in workload.symbols and workload.seq is not None else None
    cpus = gpus[0].is_cpu
    steps = simulate(workload, gpus, cpu_setting(setting) if cpus else setting, batch=batch, seq=seq, by_kind=False)
    memory = _memory(workload, gpus, sizes)
    waits = {"launch": np.minimum(steps.lanes["gpu"], steps.lanes["host"])} if cpus else {}
    waits |= _spills(workload, gpus, batch, seq, memory)
    whole: Array = steps.seconds + sum(waits.values())
    bound = main_bound(_fractions(steps, waits, whole))
    low, high = _widths(query, gpus, bound, coverage(workload).bytes_fraction)
    low_s = limited(whole * low, whole, least_s(workload, gpus, setting, batch=batch, seq=seq))
    return _Priced(step_s=whole, low_s=low_s, high_s=whole * high, memory_bytes=memory, bound=bound.astype(np.int8))


def _fractions(steps: Steps, waits: dict[str, Array], whole: Array) -> dict[str, Array]:
    return {name: (steps.shares[name] * steps.seconds + waits.get(name, 0.0)) / whole for name in BOUNDS}


def _memory(workload: Workload, gpus: Sequence[Gpu], sizes: Sequence[int]) -> Array:
    """Bytes, points × GPUs. A GPU changes what libraries and the framework take, so few of them are looked at."""
    held: dict[Any, list[float]] = {}
    columns = []
    for gpu in gpus:
        kept = library_buffers(gpu, products=True, training=workload.mode == "train")
        if kept not in held:
            batches = [size if "batch" in workload.symbols else None for size in sizes]
            held[kept] = [reserved_bytes_of(workload, size, gpu=gpu) for size in batches]
        columns.append(np.array(held[kept]) + framework_bytes(gpu))
    return np.stack(columns, axis=1)


def _spills(workload: Workload, gpus: Sequence[Gpu], batch: Any, seq: Any, memory: Array) -> dict[str, Array]:
    """Seconds for what lies in a slow segment of memory, where a GPU has one."""
    slow = [place for place, gpu in enumerate(gpus) if gpu.slow_memory_bytes_per_s is not None]
    if not slow:
        return {}
    read, written = op_bytes(workload, product_values(workload, batch, seq))
    moved = (read + written) @ call_counts(workload).sum(axis=0)
    longer = np.zeros_like(memory)
    for place in slow:
        longer[:, place] = [slow_s(gpus[place], float(m), float(b)) for m, b in zip(memory[:, place], moved, strict=True)]
    return {"memory": longer}


def _widths(query: StepQuery, gpus: Sequence[Gpu], bound: Array, covered: float) -> tuple[Array, Array]:
    """Low and high over the prediction, points × GPUs."""
    known: dict[tuple[str, bool, str], tuple[float, float]] = {}
    low, high = np.empty(bound.shape), np.empty(bound.shape)
    for place, gpu in enumerate(gpus):
        for name in ("launch", ""):
            key = (gpu.architecture.generation, gpu.is_cpu, name)
            if key not in known:
                width = width_of(query, gpu, name, covered)
                known[key] = (width.low, width.high)
            at = (bound[:, place] == BOUNDS.index("launch")) == (name == "launch")
            low[at, place], high[at, place] = known[key]
    return low, high
