"""One model in one precision on many GPUs at many batches, as one block of arrays: the unit of a sweep, a pure function.

Every value equals what `predict` gives for that point (a test checks this); here they are computed all at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from gpuwise.core.errors import GpuwiseError
from gpuwise.hardware.types import Gpu, supported
from gpuwise.prediction import predict_steps
from gpuwise.prediction.ways import Needs, as_computed
from gpuwise.questions.common.capturing import captured
from gpuwise.questions.common.runs.versions import check_versions
from gpuwise.questions.common.step import step_query
from gpuwise.questions.sweep.ask import SweepTask, gpus_meant
from gpuwise.step.types import Array
from gpuwise.workload.model.coverage import coverage
from gpuwise.workload.model.types import Workload

__all__ = ["Block", "block_of", "decode", "lost_block"]

_AT_ONCE = 200_000  # points × ops × GPUs priced together: more leaves the caches of a CPU


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Points × GPUs, as bytes of arrays: seconds as float64 (step, low, high), memory as float64, the bound and the reason as
    numbers of `BOUNDS` and `reasons` (0: none). With a `refusal` nothing was predicted and the arrays are empty."""

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
    """The block of this task, in bytes, because it may come from another machine. An unpredictable model has one too."""
    check_versions(task.versions)
    try:
        return msgspec.msgpack.encode(_priced(task))
    except GpuwiseError as fault:
        return lost_block(task, fault.message)
    except Exception as fault:  # one odd model must not end a sweep of thousands; the row says that it is our fault
        return lost_block(task, f"gpuwise failed ({type(fault).__name__}: {fault}); please report this bug")


def lost_block(task: SweepTask, reason: str) -> bytes:
    """A block in which nothing is predicted."""
    gpus = gpus_meant(task.gpus)
    return msgspec.msgpack.encode(
        Block(
            model=task.model,
            mode=task.step.mode or "train",
            precision=task.step.precision,
            seq=task.step.seq,
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


def _priced(task: SweepTask) -> Block:
    """All that can be predicted of the task; the other points have a reason."""
    query = step_query(task.step)
    workload = as_computed(captured(query.capture))
    gpus = gpus_meant(task.gpus)
    sizes = [size for size in task.batches if "batch" in workload.symbols or size == workload.batch]
    able = [place for place, gpu in enumerate(gpus) if workload.precision in supported(gpu)]
    reasons, reason = _reasons(task, workload, gpus, sizes, able)
    shape = (len(task.batches), len(gpus))
    arrays = {name: np.full(shape, np.nan) for name in ("step_s", "low_s", "high_s", "memory_bytes")}
    arrays["bound"] = np.zeros(shape, dtype=np.int8)
    rows = [task.batches.index(size) for size in sizes]
    needs = Needs(workload)
    for at, some in _tiles(rows, able, len(workload.ops)):
        sizes = [task.batches[row] for row in at]
        found = predict_steps(workload, [gpus[place] for place in some], query.run, sizes, needs=needs, by_kind=False)
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


def _tiles(rows: Sequence[int], able: Sequence[int], ops: int) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Points and GPUs to price together: all points where they are few."""
    room = max(1, _AT_ONCE // max(1, ops))
    high = max(1, min(len(rows), room))
    wide = max(1, room // high)
    for first in range(0, len(rows), high):
        for start in range(0, len(able), wide):
            yield rows[first : first + high], able[start : start + wide]


def _reasons(
    task: SweepTask, workload: Workload, gpus: Sequence[Gpu], sizes: Sequence[int], able: Sequence[int]
) -> tuple[tuple[str, ...], Array]:
    """Why points cannot be predicted: the texts, and the number of the text of each point."""
    texts = [""]
    found = np.zeros((len(task.batches), len(gpus)), dtype=np.int16)
    if len(sizes) < len(task.batches):
        texts.append(f"the model was captured only at batch {workload.batch}")
        found[[place for place, size in enumerate(task.batches) if size not in sizes]] = 1
    lacking = sorted(set(range(len(gpus))) - set(able))
    if lacking:
        texts.append(f"the GPU does not support {workload.precision}")
        found[:, lacking] = len(texts) - 1
    return tuple(texts), found
