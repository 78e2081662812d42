"""When each buffer of a step is live, the memory that PyTorch's allocator holds for them, and the memory held by the CUDA
context, libraries and frameworks.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from gpuwise.hardware.types import Gpu
from gpuwise.kernels.registry import KINDS
from gpuwise.step.memory.allocator import LARGE_SEGMENT, OWN_SEGMENT, ROUNDED_TO, SEGMENT_ROUNDED_TO, SMALL, SMALL_SEGMENT
from gpuwise.step.types import Array
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.types import CATEGORIES, DTYPE_BYTES, PHASES, Form, Op, Workload

__all__ = [
    "Constant",
    "Lives",
    "MemoryData",
    "Range",
    "Step",
    "convolved_bytes",
    "first_update",
    "framework_bytes",
    "library_buffers",
    "lives_of",
    "memory_data",
    "peak_bytes",
    "preallocated_bytes",
    "program_of",
    "reserved_after",
    "tensor_bytes_of",
]

# ---------------------------------------------------------------- lifetimes
# When each buffer of a step is live: the arrays from which peaks and allocators are computed.
#
# Whatever does not depend on the size is extracted from a workload once, so evaluating many batches is array arithmetic.


_WEIGHT, _OPTIMIZER, _INPUT = (CATEGORIES.index(name) for name in ("weight", "optimizer", "input"))


@dataclass(frozen=True, kw_only=True, eq=False)
class Lives:
    """The buffers of a workload by row: `tensor` is its size (a row of `tensors`), the other fields are as in `Buffer`.

    `convolved` are the tensors read and written by convolutions with a window, except depthwise ones.
    """

    trains: bool
    multiplies: bool
    tensor: Array
    category: Array
    born: Array
    died: Array
    elements: Array
    width: Array
    phase: Array
    convolved: Array

    @property
    def calls(self) -> int:
        return len(self.phase)

    def live(self, tensor_bytes: Array) -> Array:
        """Bytes in use during each call, shape (categories, calls)."""
        change = np.zeros((len(CATEGORIES), self.calls + 2))
        sizes = tensor_bytes[self.tensor]
        np.add.at(change, (self.category, self.born), sizes)
        np.add.at(change, (self.category, self.died), -sizes)
        found: Array = np.cumsum(change, axis=1)[:, : max(1, self.calls)]
        return found

    @property
    def lasting(self) -> Array:
        """Buffers that exist before the step and after it."""
        found: Array = (self.born == 0) & (self.died >= self.calls)
        return found

    @cached_property
    def loaded(self) -> int:
        """The number of requests for weights, which come first."""
        return int(np.count_nonzero(self.lasting & (self.category == _WEIGHT)))

    @cached_property
    def order(self) -> tuple[Array, Array]:
        """The requests of a program in order: the block, and the row that has its size, or -1 where the block is freed."""
        weights, states, inputs = (self.lasting & (self.category == which) for which in (_WEIGHT, _OPTIMIZER, _INPUT))
        rows = np.flatnonzero(~(weights | states | inputs) & (self.born < self.died))
        call = np.concatenate([self.died[rows], self.born[rows]])  # frees come before requests
        by_call = np.argsort(call, kind="stable")
        who, size = np.concatenate([rows, rows])[by_call], np.concatenate([np.full(len(rows), -1), rows])[by_call]
        update = int(np.searchsorted(call[by_call], first_update(self)))
        loaded, made, read = (np.flatnonzero(which) for which in (weights, states, inputs))
        again = read + len(self.tensor)  # the second inputs, which a training loop loads before it frees the first
        reload = [(again, read), (read, np.full(len(read), -1))] if self.trains else []
        first = [(loaded, loaded), (read, read), (who[:update], size[:update]), (made, made), (who[update:], size[update:])]
        parts = [*first, *reload, (who, size)]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def tensor_bytes_of(workload: Workload, batch: float | None, seq: float | None) -> Array:
    """Bytes of each distinct tensor at one size."""
    lives = lives_of(workload)
    found: Array = product_values(workload, batch, seq)[0][lives.elements] * lives.width
    return found


def peak_bytes(workload: Workload, batch: float | None, seq: float | None) -> float:
    """Bytes of all live tensors at the call with the highest total."""
    return _largest(workload, batch, seq, _in_use)


def convolved_bytes(workload: Workload, batch: float | None, seq: float | None) -> float:
    """The largest tensor that a convolution with a window reads or writes, or 0 if there is none."""
    return _largest(workload, batch, seq, _convolved) if len(lives_of(workload).convolved) else 0.0


def _in_use(lives: Lives, tensor_bytes: Array) -> Array:
    found: Array = lives.live(tensor_bytes).sum(axis=0)
    return found


def _convolved(lives: Lives, tensor_bytes: Array) -> Array:
    return tensor_bytes[lives.convolved]


def _largest(workload: Workload, batch: float | None, seq: float | None, what: Callable[[Lives, Array], Array]) -> float:
    """Return the largest of many values. If each is linear in the batch, as is nearly always the case, they are computed once."""

    def at(size: float | None) -> Array:
        return what(lives_of(workload), tensor_bytes_of(workload, size, seq))

    if batch is None or "batch" not in workload.symbols:
        return float(at(batch).max())
    known, key = _lines.setdefault(workload.form, {}), (what, workload.seq if seq is None else seq)
    if key not in known:
        known[key] = _straight(*map(at, _PROBES))
    lines = known[key]
    return float(at(batch).max() if lines is None else (lines[0] + batch * lines[1]).max())


def _straight(first: Array, second: Array, last: Array) -> tuple[Array, Array] | None:
    slope = (second - first) / (_PROBES[1] - _PROBES[0])
    start = first - _PROBES[0] * slope
    return (start, slope) if np.allclose(start + _PROBES[2] * slope, last, rtol=1e-9) else None


_PROBES = (1, 2, 64)
_lines: WeakKeyDictionary[Form, dict[object, tuple[Array, Array] | None]] = WeakKeyDictionary()
_known: WeakKeyDictionary[Form, Lives] = WeakKeyDictionary()


def lives_of(workload: Workload) -> Lives:
    """Return the arrays for this workload, computed once."""
    found = _known.get(workload.form)
    if found is None:
        found = _known[workload.form] = _made(workload)
    return found


def _made(workload: Workload) -> Lives:
    buffers, values = workload.buffers, product_values(workload)[0]
    convolved = {row for op in workload.ops if _has_window(op, values) for row in (*op.reads, *op.writes)}
    return Lives(
        trains=workload.mode == "train",
        multiplies=any(op.kind == "matmul" for op in workload.ops),
        tensor=buffers.tensor,
        category=buffers.category,
        born=buffers.born,
        died=buffers.died,
        elements=np.array([tensor.elements for tensor in workload.tensors], dtype=np.int64),
        width=np.array([DTYPE_BYTES[tensor.dtype] for tensor in workload.tensors]),
        phase=workload.calls.phase,
        convolved=np.array(sorted(convolved), dtype=np.int64),
    )


def _has_window(op: Op, values: Array) -> bool:
    """Return whether a convolution reads more than one position and mixes channels. cuDNN was seen to use large workspaces only
    for such convolutions.
    """
    if op.kind != "conv":
        return False
    sizes = dict(zip(KINDS["conv"].sizes, (float(values[row]) for row in op.sizes), strict=True))
    return sizes["kernel"] > 1 and op.attrs.get("groups", 1) not in (sizes["c_in"], sizes["c_out"])


def first_update(lives: Lives) -> int:
    """Return the call at which the optimizer starts, or the number of calls."""
    found = np.flatnonzero(lives.phase == PHASES.index("optimizer"))
    return int(found[0]) if len(found) else lives.calls


# ---------------------------------------------------------------- the program of a step, and the memory held after it
# The order is that of a program: weights first, then steps. At the end of the first step, the optimizer creates its state. The
# second step finds the blocks left by the first. A training loop loads the next inputs before it frees the previous ones.


def program_of(lives: Lives, tensor_bytes: Array) -> tuple[Array, Array]:
    """Return which block is requested, and with how many bytes, in program order. A size of -1 frees the block."""
    who, rows = lives.order
    # a size that shrinks with the batch may become negative at a batch other than the captured one: the buffer is then absent
    sizes = np.append(np.maximum(tensor_bytes[lives.tensor], 0.0), -1.0)
    return who, sizes[rows]


# What PyTorch's caching allocator holds after a program, on a device that never runs out of memory. The rules are those of
# `allocator.py`. Without a limit, the pools for small and for large requests do not affect each other, and memory is never given
# back to the device. Free blocks are then the gaps between the blocks in use, so plain numbers describe a pool. `fit` and `plan`
# simulate many steps, and this takes less than half the time.

# The key of a piece of memory has its size, its place and its number. Sizes and places are counted in units of 512 bytes; the
# largest batch that may be asked needs 50 bits.
_PLACE_AT, _SIZE_AT = 32, 88
_NUMBER = (1 << _PLACE_AT) - 1
_SMALL, _SMALL_SEGMENT, _LARGE_SEGMENT, _OWN_SEGMENT, _SEGMENT_ROUNDED_TO = (
    size // ROUNDED_TO for size in (SMALL, SMALL_SEGMENT, LARGE_SEGMENT, OWN_SEGMENT, SEGMENT_ROUNDED_TO)
)


def reserved_after(who: Array, sizes: Array) -> int:
    """Return the bytes held after these requests, in program order. Each row requests the block `who`, or frees it where the size
    is below 0.
    """
    frees = sizes < 0
    units = np.where(frees, 0, np.maximum(1, -(-sizes.astype(np.int64) // ROUNDED_TO)))
    largest = np.zeros(int(who.max(initial=0)) + 1, dtype=np.int64)
    largest[who[~frees]] = units[~frees]  # the size of a block is the same whenever it is requested
    small = largest[who] <= _SMALL
    pools = ((small, _SMALL_SEGMENT, 1), (~small, 0, _SMALL + 1))
    return ROUNDED_TO * sum(_held(who[rows].tolist(), units[rows].tolist(), segment, least) for rows, segment, least in pools)


def _held(who: list[int], units: list[int], segment: int, least: int) -> int:
    """Return the units held by one pool. New memory comes in segments of one size, or by the request if that is 0. A rest of a
    block is split off if it has at least `least` units.

    Pieces of segments are numbered from 1, with their neighbours in `before` and `after` (0: none). `key` has the key of each
    free piece, or 0. `free` has these keys in order, except for the `latest` free piece, which is often used or merged next.
    """
    # A request adds at most a segment and a rest. Sizes and places are shifted as in a key.
    key, size, place, before, after = ([0] * (2 * len(who) + 1) for _ in range(5))
    used = [0] * (max(who, default=0) + 1)
    free: list[int] = []
    held = last = latest = 0
    least <<= _SIZE_AT
    for block, asked in zip(who, units, strict=True):
        if asked:
            asked <<= _SIZE_AT
            at = bisect_left(free, asked)
            if latest > asked and (at == len(free) or latest < free[at]):
                here, latest = latest & _NUMBER, 0
            elif at < len(free):
                here = free.pop(at) & _NUMBER
            else:
                here = last = last + 1
                whole = segment or _own_segment(asked >> _SIZE_AT)
                size[here], place[here] = whole << _SIZE_AT, (held + here) << _PLACE_AT  # segments do not touch
                held += whole
            key[here], used[block], left = 0, here, size[here] - asked
            if left >= least:
                if latest:
                    insort(free, latest)
                rest = last = last + 1
                size[here], size[rest] = asked, left
                place[rest] = there = place[here] + (asked >> _SIZE_AT - _PLACE_AT)
                before[rest], after[rest] = here, after[here]
                before[after[here]] = after[here] = rest
                key[rest] = latest = left + there + rest
        else:
            here = used[block]
            ahead, beyond, whole = before[here], after[here], size[here]
            if found := key[beyond]:
                if found == latest:
                    latest = 0
                else:
                    del free[bisect_left(free, found)]
                whole += size[beyond]
                after[here] = beyond = after[beyond]
                before[beyond] = here
            if found := key[ahead]:
                if found == latest:
                    latest = 0
                else:
                    del free[bisect_left(free, found)]
                whole += size[ahead]
                after[ahead], before[beyond] = beyond, ahead
                here = ahead
            if latest:
                insort(free, latest)
            size[here] = whole
            key[here] = latest = whole + place[here] + here
    return held


def _own_segment(asked: int) -> int:
    """Return the size of a new segment of the large pool."""
    return _LARGE_SEGMENT if asked < _OWN_SEGMENT else -(-asked // _SEGMENT_ROUNDED_TO) * _SEGMENT_ROUNDED_TO


# ---------------------------------------------------------------- besides tensors
# Memory used by anything other than tensors: the CUDA context, library code and buffers, a desktop, and framework reserves.
#
# Every value is in `data/memory.json` with its source; those marked fitted are written by `tools/fit_memory.py`.

MIB = 2**20
_CAPABILITY = 8.0  # if no GPU is named
_JAX_FRACTION = 0.75  # docs.jax.dev, "GPU memory allocation"
_SMALL_DEVICE = 2 * 2**30
_SMALL_RESERVE = 225 * MIB  # TensorFlow's on devices below 2 GiB


class Constant(msgspec.Struct, frozen=True):
    value: float
    basis: str
    source: str


class Step(msgspec.Struct, frozen=True):
    """A value that applies from a compute capability upwards."""

    capability: float
    value: float


class Range(msgspec.Struct, frozen=True):
    """Quantiles of measured over predicted bytes."""

    probability: tuple[float, ...]
    ratio: tuple[float, ...]
    basis: str


class MemoryData(msgspec.Struct, frozen=True):
    """The contents of the data file."""

    constants: dict[str, Constant]
    framework_bytes: tuple[Step, ...]
    framework_source: str
    ranges: dict[str, Range]

    def value(self, name: str) -> float:
        return self.constants[name].value


@cache
def memory_data() -> MemoryData:
    """Return the constants shipped with the package."""
    return msgspec.json.decode((files("gpuwise.step") / "data" / "memory.json").read_bytes(), type=MemoryData)


def framework_bytes(gpu: Gpu | None = None, data: MemoryData | None = None) -> float:
    """Return the bytes of the CUDA context, loaded kernels and libraries in a training process, by the GPU's compute
    capability.
    """
    data = data or memory_data()
    return _by_capability(gpu, data) * data.value("framework_factor")


def _by_capability(gpu: Gpu | None, data: MemoryData) -> float:
    mine = _capability(gpu)
    return [step.value for step in data.framework_bytes if step.capability <= mine][-1]


def _capability(gpu: Gpu | None) -> float:
    """Return the compute capability. Little is published about other makers' GPUs, so they are treated like an unnamed GPU."""
    try:
        return float(gpu.architecture.capability) if gpu is not None else _CAPABILITY
    except ValueError:
        return _CAPABILITY


def library_buffers(gpu: Gpu | None, *, products: bool, training: bool) -> tuple[float, ...]:
    """Return the buffers that cuBLAS holds through PyTorch's allocator: one workspace for each calling thread; the backward pass
    has its own.
    """
    if not products:
        return ()
    name = "cublas_workspace_hopper_bytes" if _capability(gpu) >= 9 else "cublas_workspace_bytes"
    return (memory_data().value(name),) * (2 if training else 1)


def preallocated_bytes(gpu: Gpu, framework: str, fraction: float | None = None) -> float:
    """Return the bytes that TensorFlow or JAX reserves at the start by default."""
    whole = gpu.usable_memory_bytes
    if fraction is not None or framework == "jax":
        return whole * (_JAX_FRACTION if fraction is None else fraction)
    return whole - (_SMALL_RESERVE if whole < _SMALL_DEVICE else _by_capability(gpu, memory_data()))
