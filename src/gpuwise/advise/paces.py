"""How fast one job runs on every GPU of a list, each in the way and at the batch that suits it.

Memory comes first: it decides how many samples are run at once. Then all GPUs that agree in that are priced together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from gpuwise.advise.capacity import room_of
from gpuwise.advise.needs import Needs
from gpuwise.advise.types import Choices, DoesNotApply
from gpuwise.advise.ways import Ways
from gpuwise.hardware.types import Gpu
from gpuwise.step.cpu import cpu_setting
from gpuwise.step.simulate import simulate
from gpuwise.step.stacks import as_run
from gpuwise.step.types import Setting
from gpuwise.workload.types import Workload

__all__ = ["GRID", "Pace", "Pacer"]

GRID = tuple(2**power for power in range(12))  # batches tried where the best one is asked for
_ENOUGH = 0.98  # of the best rate: a smaller batch that reaches it is taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """One job on one GPU. `batch` samples make a step, `micro_batch` of them at once; the rest are accumulated."""

    gpu: Gpu
    choices: Choices
    batch: int
    micro_batch: int
    step_s: float
    memory_bytes: float
    usable_bytes: float
    bound: str

    @property
    def fits(self) -> bool:
        return self.memory_bytes <= self.usable_bytes

    @property
    def samples_per_s(self) -> float:
        return self.batch / self.step_s


class Pacer:
    """One model on many GPUs. What was worked out for one question serves the next."""

    def __init__(self, ways: Ways, setting: Setting) -> None:
        self._ways = ways
        self._setting = setting
        self._needs: dict[Choices, Needs] = {}
        self._known: dict[tuple[str, Choices, int], Pace] = {}

    def paces(
        self, gpus: Sequence[Gpu], ways: Callable[[Gpu], Sequence[Choices]], *, batch: int | None, auto: bool = False
    ) -> dict[str, Pace]:
        """The pace of each GPU that has a way to run the job, the fastest of its ways that fit: at `batch` (None: the usual one),
        or with `auto` at the batch of most samples a second."""
        sizes = {gpu.name: self._sizes(gpu, ways(gpu), batch, auto) for gpu in gpus}
        self._price([(gpu, choices, size) for gpu in gpus for choices, size in sizes[gpu.name]])
        found = {name: [self._known[(name, *size)] for size in tried] for name, tried in sizes.items() if tried}
        return {name: _whole(_soonest([pace for pace in tried if pace.fits] or tried), batch) for name, tried in found.items()}

    def workload(self, choices: Choices) -> Workload:
        """What a GPU runs with these choices."""
        return self._ways.way(choices).workload

    def _sizes(self, gpu: Gpu, ways: Sequence[Choices], batch: int | None, auto: bool) -> list[tuple[Choices, int]]:
        """What to price: every size that fits, or the largest that does; the smallest where none does."""
        found = []
        for choices in ways:
            try:
                workload = self.workload(choices)
            except DoesNotApply:
                continue
            usual = batch or workload.batch
            sizes = [usual] if "batch" not in workload.symbols else list(reversed(GRID)) if auto else _halves(usual)
            room, need = room_of(gpu).usable_bytes, self._need(choices)
            fitting = (size for size in sizes if need.memory(gpu, size).total_bytes <= room)
            kept = list(fitting) if auto else list(islice(fitting, 1))
            found += [(choices, size) for size in kept or sizes[-1:]]
        return found

    def _need(self, choices: Choices) -> Needs:
        if choices not in self._needs:
            self._needs[choices] = Needs(self.workload(choices))
        return self._needs[choices]

    def _price(self, wanted: Iterable[tuple[Gpu, Choices, int]]) -> None:
        """Steps of GPUs that run the same way at the same sizes, in one go."""
        sizes: dict[tuple[Choices, str], set[int]] = {}
        gpus: dict[str, Gpu] = {}
        for gpu, choices, size in wanted:
            if (gpu.name, choices, size) not in self._known:
                sizes.setdefault((choices, gpu.name), set()).add(size)
                gpus[gpu.name] = gpu
        groups: dict[tuple[Choices, bool, tuple[int, ...]], list[Gpu]] = {}
        for (choices, name), found in sizes.items():
            groups.setdefault((choices, gpus[name].is_cpu, tuple(sorted(found))), []).append(gpus[name])
        for (choices, is_cpu, those), members in groups.items():
            self._simulate(choices, members, those, is_cpu=is_cpu)

    def _simulate(self, choices: Choices, gpus: list[Gpu], sizes: tuple[int, ...], *, is_cpu: bool) -> None:
        workload = self.workload(choices)
        batch = np.array(sizes, dtype=float) if "batch" in workload.symbols else None
        setting = as_run(self._setting, workload)
        setting = cpu_setting(setting) if is_cpu else setting
        steps = simulate(workload, gpus, setting, batch=batch, seq=_seq(workload, len(sizes)), dtype=np.float32)
        waits = np.minimum(steps.lanes["gpu"], steps.lanes["host"]) if is_cpu else np.zeros_like(steps.seconds)
        seconds, bound = (steps.seconds + waits).tolist(), steps.bound.tolist()
        for row, size in enumerate(sizes):
            for column, gpu in enumerate(gpus):
                self._known[gpu.name, choices, size] = Pace(
                    gpu=gpu,
                    choices=choices,
                    batch=size,
                    micro_batch=size,
                    step_s=seconds[row][column],
                    memory_bytes=self._need(choices).memory(gpu, size).total_bytes,
                    usable_bytes=room_of(gpu).usable_bytes,
                    bound=bound[row][column],
                )


def _whole(pace: Pace, batch: int | None) -> Pace:
    """A step of as many samples as were asked for, in parts where they do not fit at once."""
    if batch is None or batch <= pace.micro_batch:
        return pace
    return replace(pace, batch=batch, step_s=pace.step_s * batch / pace.micro_batch)


def _soonest(paces: Sequence[Pace]) -> Pace:
    """The fastest; of those that are nearly as fast, the one of the smallest batch."""
    best = max(pace.samples_per_s for pace in paces)
    near = [pace for pace in paces if pace.samples_per_s >= _ENOUGH * best]
    return min(near, key=lambda pace: (pace.batch, -pace.samples_per_s))


def _halves(size: int) -> list[int]:
    """The size, and half of it again and again down to 1.

    >>> _halves(12)
    [12, 6, 3, 1]
    """
    found = [size]
    while found[-1] > 1:
        found.append(found[-1] // 2)
    return found


def _seq(workload: Workload, points: int) -> Any:
    return np.full(points, float(workload.seq)) if "seq" in workload.symbols and workload.seq is not None else None
