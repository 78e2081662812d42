"""What a step needs on each of many GPUs, each figure worked out once."""

from __future__ import annotations

from gpuwise.advise.capacity import largest
from gpuwise.hardware.types import Gpu
from gpuwise.step.device_memory import framework_bytes, library_buffers
from gpuwise.step.memory import Memory, memory_of
from gpuwise.workload.types import Workload

__all__ = ["Needs"]


class Needs:
    """What the step needs at a batch, and the largest batch in a room, each worked out once.

    A GPU changes what the framework takes, and what libraries keep; GPUs alike in the latter share a search.
    """

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._memories: dict[tuple[object, int], Memory] = {}
        self._known: dict[object, dict[int, float]] = {}
        self._largest: dict[tuple[object, float], int] = {}

    def memory(self, gpu: Gpu, batch: int) -> Memory:
        """As for this GPU."""
        return self._memory(gpu, batch, (framework_bytes(gpu), self._libraries(gpu)))

    def _libraries(self, gpu: Gpu) -> object:
        return library_buffers(gpu, products=True, training=self._workload.mode == "train")

    def _memory(self, gpu: Gpu, batch: int, key: object) -> Memory:
        if (key, batch) not in self._memories:
            size = batch if "batch" in self._workload.symbols else None
            self._memories[key, batch] = memory_of(self._workload, size, gpu=gpu)
        return self._memories[key, batch]

    def largest(self, gpu: Gpu, usable: float) -> int:
        """The search starts from what is known of smaller and larger rooms."""
        if "batch" not in self._workload.symbols:
            return self._workload.batch if self.memory(gpu, self._workload.batch).total_bytes <= usable else 0
        kept, room = self._libraries(gpu), usable - framework_bytes(gpu)
        known = self._known.setdefault(kept, {})

        def need(batch: int) -> float:
            known.setdefault(batch, self._memory(gpu, batch, kept).reserved_bytes)
            return known[batch]

        if (kept, room) not in self._largest:
            self._largest[kept, room] = largest(need, room, known=known)
        return self._largest[kept, room]
