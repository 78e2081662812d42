"""What a step needs on each of many GPUs, each figure worked out once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpuwise.engine.capacity import largest
from gpuwise.hardware.types import Gpu
from gpuwise.step.memory.device import library_buffers
from gpuwise.step.memory.lifetimes import lives_of, peak_bytes, tensor_bytes_of
from gpuwise.step.memory.peak import Memory, MemorySetting, around_bytes, memory_of, reserved_bytes_of
from gpuwise.workload.model.types import Workload

__all__ = ["Needs"]

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
