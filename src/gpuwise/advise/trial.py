"""One question on one GPU: the memory and time of any way of running, each computed once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gpuwise.advise.types import Rung
from gpuwise.core.errors import BadValue
from gpuwise.hardware.types import Gpu
from gpuwise.prediction import Run, predict_steps
from gpuwise.prediction.choices import Choices
from gpuwise.prediction.ranges import Correction
from gpuwise.prediction.ways import LARGEST_BATCH, Room, Ways, largest
from gpuwise.step.memory.lifetimes import peak_bytes
from gpuwise.step.memory.peak import Memory, MemorySetting, memory_of, survives
from gpuwise.workload.compile.stored import stored_bytes
from gpuwise.workload.model.evaluate import peak_memory
from gpuwise.workload.model.types import Workload

__all__ = ["Trial", "check_addressable"]

_ADDRESSABLE = 2.0**63


@dataclass(kw_only=True)
class Trial:
    """`now` is how the user wants to run it, `batch` the samples per step and GPU. In a `careful` trial, a step fits only if
    the upper end of the range does.
    """

    gpu: Gpu
    room: Room
    batch: int
    now: Choices
    ways: Ways
    run: Run
    correction: Correction = field(default_factory=Correction)
    display: bool = False
    careful: bool = False
    _memories: dict[tuple[Choices, int], Memory] = field(default_factory=dict)
    _now_s: float = 0.0

    def workload(self, choices: Choices) -> Workload:
        """What one GPU runs for one micro-batch."""
        return self.ways.way(choices).workload

    def memory(self, choices: Choices, batch: int | None = None) -> Memory:
        """The peak on one GPU with this many samples per step."""
        micro = -(-(self.batch if batch is None else batch) // choices.accumulate)
        key = (choices, micro)
        if key not in self._memories:
            workload = self.workload(choices)
            setting = MemorySetting(display=self.display, gpu_count=choices.gpu_count)
            size = micro if "batch" in workload.symbols else None
            self._memories[key] = memory_of(workload, size, gpu=self.gpu, setting=setting)
        return self._memories[key]

    def need(self, choices: Choices, batch: int | None = None) -> float:
        """Return the bytes to compare with the room. If tensors alone exceed it, only theirs: the allocator would change
        nothing.
        """
        micro = -(-(self.batch if batch is None else batch) // choices.accumulate)
        if (choices, micro) not in self._memories:
            workload = self.workload(choices)
            tensors = peak_bytes(workload, micro if "batch" in workload.symbols else None, None)
            if tensors > self.room.usable_bytes:
                return tensors
        memory = self.memory(choices, batch)
        return memory.high_bytes if self.careful else memory.total_bytes

    def fits(self, choices: Choices, batch: int | None = None) -> bool:
        """Whether the step stays within the room. Compiling a step takes long, so first whether what it stores can."""
        micro = -(-(self.batch if batch is None else batch) // choices.accumulate)
        if choices.compiled and choices.precision != "fp8" and (choices, micro) not in self._memories:
            eager = self.workload(replace(choices, compiled=False))
            if stored_bytes(eager, micro if "batch" in eager.symbols else None) > self.room.usable_bytes:
                return False
        return self.need(choices, batch) <= self.room.usable_bytes

    def survives(self, choices: Choices) -> bool:
        """Return whether a step still gets through, slowly, by releasing cached blocks, as PyTorch does when memory runs out."""
        if self.fits(choices):
            return True
        workload, memory = self.workload(choices), self.memory(choices)
        if memory.allocated_bytes + memory.framework_bytes > self.room.usable_bytes:
            return False
        micro = -(-self.batch // choices.accumulate) if "batch" in workload.symbols else None
        setting = MemorySetting(display=self.display, gpu_count=choices.gpu_count)
        return survives(workload, self.room.usable_bytes, micro, gpu=self.gpu, setting=setting)

    def max_batch(self, choices: Choices) -> int:
        """Return the exact largest batch of a step that fits, or 0 if none does."""
        workload = self.workload(choices)
        if "batch" not in workload.symbols:
            return workload.batch if self.fits(choices, workload.batch) else 0
        parts = choices.accumulate
        most = largest(lambda size: self.need(choices, size * parts), self.room.usable_bytes, top=LARGEST_BATCH // parts)
        return most * parts

    def step_s(self, choices: Choices, batch: int | None = None) -> float:
        """Seconds of a step."""
        way, size = self.ways.way(choices), self.batch if batch is None else batch
        steps = predict_steps(
            way.workload, [self.gpu], way.run(self.run), [size], correction=replace(self.correction, exact=False), by_kind=False
        )
        return float(steps.step_s[0, 0])

    @property
    def now_s(self) -> float:
        """Seconds of a step as the user wants to run it, whether it fits or not."""
        self._now_s = self._now_s or self.step_s(self.now)
        return self._now_s

    def rung(self, name: str, title: str, effect: str, how: str, choices: Choices) -> Rung:
        """This way of running as a line of advice."""
        seconds = self.step_s(choices)
        sharing = choices.gpu_count if choices.split else 1  # GPUs that work on the same samples
        return Rung(
            name=name,
            title=title,
            effect=effect,
            how=how,
            gpu=self.gpu.name,
            gpu_count=choices.gpu_count,
            batch=self.batch,
            memory=self.memory(choices),
            fits=self.fits(choices),
            max_batch=self.max_batch(choices),
            step_s=seconds,
            cost=seconds / self.now_s * sharing,
        )


def check_addressable(workload: Workload, batch: int) -> None:
    """Refuse sizes at which bytes could not be counted."""
    total = peak_memory(workload, float(batch) if "batch" in workload.symbols else None).total_bytes
    if not total < _ADDRESSABLE:
        raise BadValue(
            f"a step of {workload.model} at batch {batch:,} would need {total:.2g} bytes, which is more than can be addressed",
            hint="use a smaller `--batch` or `--seq`; `--batch auto` finds the largest batch that fits",
        )
