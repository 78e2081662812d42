"""What a step needs on each of many GPUs, and what their memory holds: how much of it a program gets, the largest batch that
stays within it, and how sure that is. Each figure is worked out once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from gpuwise.hardware.types import Gpu
from gpuwise.step.memory.device import library_buffers
from gpuwise.step.memory.lifetimes import lives_of, peak_bytes, tensor_bytes_of
from gpuwise.step.memory.peak import Memory, MemorySetting, around_bytes, memory_of, reserved_bytes_of, upper_ratio
from gpuwise.workload.model.types import Workload

__all__ = ["LARGEST_BATCH", "Needs", "Room", "largest", "room_of", "safe_bytes"]

# ---------------------------------------------------------------- what memory holds

LARGEST_BATCH = 2**31 - 1
_SHARED_SEGMENTS = ("soc", "embedded", "cpu")
_SYSTEM_FRACTION = 0.2  # of memory shared with the CPU, for the system and the program's own data


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Bytes a step may need on one GPU. Shared memory belongs to the CPU too."""

    usable_bytes: float
    nominal_bytes: float
    shared: bool
    remark: str = ""


def room_of(gpu: Gpu) -> Room:
    """The memory of this GPU that one program can have."""
    if gpu.segment not in _SHARED_SEGMENTS or gpu.memory_type.startswith(("GDDR", "HBM")):
        whole = gpu.usable_memory_bytes + gpu.slow_memory_bytes
        return Room(usable_bytes=whole, nominal_bytes=gpu.memory_bytes, shared=False)
    usable = gpu.usable_memory_bytes
    remark = "the share that Metal recommends as a working set"
    if gpu.vendor != "Apple":
        usable = min(usable, gpu.memory_bytes * (1.0 - _SYSTEM_FRACTION))
        remark = f"{_SYSTEM_FRACTION:.0%} is left to the system and the program's own data"
    return Room(usable_bytes=usable, nominal_bytes=gpu.memory_bytes, shared=True, remark=remark)


def safe_bytes(gpu: Gpu) -> float:
    """What a step may be predicted to need on this GPU so that nine in ten stay within its room."""
    return room_of(gpu).usable_bytes / upper_ratio()


def largest(
    need: Callable[[int], float], room_bytes: float, *, top: int = LARGEST_BATCH, known: Mapping[int, float] | None = None
) -> int:
    """The largest whole number up to `top` whose need stays within the room; 0 if none does. Needs already `known` save looking.

    Need grows with its argument, nearly in straight lines, so guesses follow the line through the ends of the bracket, and every
    fourth takes its middle. The answer fits and the next does not, whatever the shape.
    """
    low, least, high, most = _bracket(need, room_bytes, top, known or {})
    turn = 0
    while high - low > 1:
        slope = (most - least) / (high - low)
        turn += 1
        by_line = turn % 4 and 0 < slope < math.inf
        guess = low + int((room_bytes - least) / slope) if by_line else (low + high) // 2
        guess = min(max(guess, low + 1), high - 1)
        found = need(guess)
        if found <= room_bytes:
            low, least = guess, found
        else:
            high, most = guess, found
    return low


def _bracket(
    need: Callable[[int], float], room_bytes: float, top: int, known: Mapping[int, float]
) -> tuple[int, float, int, float]:
    """A number that fits (0 if 1 does not) and what it needs, one above it that does not and what that needs."""
    first = known[1] if 1 in known else need(1)
    if first > room_bytes:
        return 0, 0.0, 1, first
    low, least = max(((size, bytes_) for size, bytes_ in known.items() if bytes_ <= room_bytes), default=(1, first))
    above = [(size, bytes_) for size, bytes_ in known.items() if bytes_ > room_bytes and size > low]
    if above:
        return low, least, *min(above)
    step = max(1, low)
    while low < top:
        high = min(top, low + step)
        most = need(high)
        if most > room_bytes:
            return low, least, high, most
        slope = (most - least) / (high - low)
        low, least = high, most
        step = min(int((room_bytes - most) / slope) + 1, 64 * high) if slope > 0 else high
    return top, least, top + 1, math.inf


# ---------------------------------------------------------------- what a step needs

_LARGEST_AUTO = 2**16  # samples: beyond that no GPU gets faster


class Needs:
    """What the step needs at a batch, and the largest batch in a room, each worked out once.

    A GPU changes what the framework takes, and what libraries keep; GPUs alike in the latter share a search.
    """

    def __init__(self, workload: Workload, setting: MemorySetting | None = None) -> None:
        self._workload = workload
        self._setting = setting or MemorySetting()
        self._memories: dict[tuple[object, int], Memory] = {}
        self._peaks: dict[int, float] = {}
        self._known: dict[object, dict[int, float]] = {}
        self._largest: dict[tuple[object, float], int] = {}

    def memory(self, gpu: Gpu, batch: int) -> Memory:
        """As for this GPU."""
        return self._memory(gpu, batch, (self._around(gpu), self._libraries(gpu)))

    def total_bytes(self, gpu: Gpu, batch: int) -> float:
        """As `memory` has it: what the framework takes comes on top of what the allocator holds."""
        return self._held(gpu, batch) + self._around(gpu)

    def within(self, gpu: Gpu, room: float) -> Callable[[int], bool]:
        """What tells whether a batch fits. Where tensors in use at the peak are more than the room, nothing else is looked at."""
        left, known = room - self._around(gpu), self._known.setdefault(self._libraries(gpu), {})
        return lambda batch: self._peak(batch) <= room and (known.get(batch) or self._held(gpu, batch)) <= left

    def _peak(self, batch: int) -> float:
        if batch not in self._peaks:
            size = batch if "batch" in self._workload.symbols else None
            self._peaks[batch] = peak_bytes(self._workload, size, None)
        return self._peaks[batch]

    def serves(self, workload: Workload, setting: MemorySetting) -> bool:
        """Whether another step holds the same bytes at the same times."""
        mine = self._workload
        if setting != self._setting:
            return False
        if (mine.mode, mine.seq, mine.symbols, mine.batch) != (workload.mode, workload.seq, workload.symbols, workload.batch):
            return False
        return mine is workload or _figures(mine) == _figures(workload)

    def _held(self, gpu: Gpu, batch: int) -> float:
        """What the allocator holds, whatever the framework takes."""
        kept = self._libraries(gpu)
        known = self._known.setdefault(kept, {})
        if batch not in known:
            size = batch if "batch" in self._workload.symbols else None
            known[batch] = reserved_bytes_of(self._workload, size, gpu=gpu)
        return known[batch]

    def _around(self, gpu: Gpu) -> float:
        return around_bytes(gpu, self._setting)

    def _libraries(self, gpu: Gpu) -> object:
        return library_buffers(gpu, products=True, training=self._workload.mode == "train")

    def _memory(self, gpu: Gpu, batch: int, key: object) -> Memory:
        if (key, batch) not in self._memories:
            size = batch if "batch" in self._workload.symbols else None
            self._memories[key, batch] = memory_of(self._workload, size, gpu=gpu, setting=self._setting)
        return self._memories[key, batch]

    def power_of_two(self, gpu: Gpu) -> int:
        """The largest power of two whose step fits this GPU; 1 where none does. What `--batch auto` takes."""
        size, fits = 1, self.within(gpu, gpu.usable_memory_bytes)
        while size < _LARGEST_AUTO and fits(size * 2):
            size *= 2
        return size

    def largest(self, gpu: Gpu, usable: float) -> int:
        """The search starts from what is known of smaller and larger rooms."""
        if "batch" not in self._workload.symbols:
            return self._workload.batch if self.memory(gpu, self._workload.batch).total_bytes <= usable else 0
        kept, room = self._libraries(gpu), usable - self._around(gpu)
        known = self._known.setdefault(kept, {})
        if (kept, room) not in self._largest:
            self._largest[kept, room] = largest(lambda batch: self._held(gpu, batch), room, known=known)
        return self._largest[kept, room]


def _figures(workload: Workload) -> tuple[bytes, ...]:
    """Births, deaths and sizes of all tensors: what memory follows from."""
    lives = lives_of(workload)
    sizes = [tensor_bytes_of(workload, size, None) for size in ((1.0, 2.0, 3.0) if "batch" in workload.symbols else (None,))]
    columns = (lives.born, lives.died, lives.category, lives.tensor, lives.phase, lives.convolved, *sizes)
    return tuple(np.ascontiguousarray(column).tobytes() for column in columns)
