"""How fast one job runs on every GPU of a list, each in the way and at the batch that suits it.

Memory comes first: it decides how many samples are run at once. Then all GPUs that agree in that are priced together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Any, NamedTuple

import numpy as np

from gpuwise.advise.capacity import room_of, safe_bytes
from gpuwise.advise.needs import Needs
from gpuwise.advise.types import Choices, DoesNotApply
from gpuwise.advise.ways import Ways
from gpuwise.hardware.types import Gpu
from gpuwise.step.cpu import cpu_setting
from gpuwise.step.memory import upper_ratio
from gpuwise.step.simulate import simulate
from gpuwise.step.stacks import as_run
from gpuwise.step.types import Setting
from gpuwise.workload.types import Workload

__all__ = ["GRID", "Pace", "Pacer"]

GRID = tuple(2**power for power in range(12))  # batches tried where the best one is asked for
_BAND = 3  # sizes of the grid that GPUs may differ in and still be priced together
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
        """As a careful `fit` has it: nine in ten such steps get through."""
        return self.memory_bytes * upper_ratio() <= self.usable_bytes

    @property
    def samples_per_s(self) -> float:
        return self.batch / self.step_s


class _Tried(NamedTuple):
    """One way to run the job on a GPU and the sizes to look at: all that fit, or the smallest where none does."""

    choices: Choices
    sizes: tuple[int, ...]
    fits: bool


class Pacer:
    """One model on many GPUs. What was worked out for one question serves the next."""

    def __init__(self, ways: Ways, setting: Setting) -> None:
        self.ways = ways
        self.setting = setting
        self._needs: dict[Choices, Needs] = {}
        self._refusal: DoesNotApply | None = None  # told where there is nothing else to tell
        self._fitting: dict[tuple[Choices, str], tuple[int, ...]] = {}
        self._steps: dict[tuple[Choices, str], dict[int, tuple[float, str]]] = {}  # seconds and bound by size

    def paces(
        self, gpus: Sequence[Gpu], ways: Callable[[Gpu], Sequence[Choices]], *, batch: int | None, auto: bool = False
    ) -> dict[str, Pace]:
        """The pace of each GPU that has a way to run the job, the fastest of its ways that fit: at `batch` (None: the usual one),
        or with `auto` at the batch of most samples a second."""
        tried = {gpu.name: self._tried(gpu, ways(gpu), batch, auto) for gpu in gpus}
        if self._refusal is not None and not any(tried.values()):
            raise self._refusal.__cause__ or self._refusal
        self._price((gpu, one) for gpu in gpus for one in tried[gpu.name])
        found = [self._soonest(gpu, tried[gpu.name]) for gpu in gpus if tried[gpu.name]]
        return {pace.gpu.name: pace if auto else _whole(pace, batch or self.workload(pace.choices).batch) for pace in found}

    def workload(self, choices: Choices) -> Workload:
        """What a GPU runs with these choices."""
        return self.ways.way(choices).workload

    def _tried(self, gpu: Gpu, ways: Sequence[Choices], batch: int | None, auto: bool) -> list[_Tried]:
        """Every size that fits, or the largest that does; the smallest where none does."""
        found = []
        for choices in ways:
            try:
                workload = self.workload(choices)
            except DoesNotApply as refusal:
                self._refusal = refusal
                continue
            if "batch" not in workload.symbols:
                sizes = [batch or workload.batch]
                kept = self._that_fit(gpu, choices, sizes)
            elif auto:
                sizes = list(GRID)
                kept = self._of_the_grid(gpu, choices)
            else:
                sizes = _halves(batch or workload.batch)
                kept = self._that_fit(gpu, choices, sizes)
            found.append(_Tried(choices, kept or (min(sizes),), bool(kept)))
        return found

    def _that_fit(self, gpu: Gpu, choices: Choices, sizes: Sequence[int]) -> tuple[int, ...]:
        """The first of them that does."""
        room, need = safe_bytes(gpu), self._need(choices)
        return tuple(islice(filter(need.within(gpu, room), sizes), 1))

    def _of_the_grid(self, gpu: Gpu, choices: Choices) -> tuple[int, ...]:
        """Sizes of the grid that fit: a larger batch needs more, so the first that does not ends them."""
        key = (choices, gpu.name)
        if key not in self._fitting:
            room, need = safe_bytes(gpu), self._need(choices)
            self._fitting[key] = tuple(takewhile(need.within(gpu, room), GRID))
        return self._fitting[key]

    def _need(self, choices: Choices) -> Needs:
        """Ways that hold the same bytes, such as both kinds of 16 bit, share what is known of them."""
        if choices not in self._needs:
            workload = self.workload(choices)
            same = (known for known in self._needs.values() if known.serves(workload))
            self._needs[choices] = next(same, None) or Needs(workload)
        return self._needs[choices]

    def _price(self, wanted: Iterable[tuple[Gpu, _Tried]]) -> None:
        """Steps of GPUs that run the same way at the same sizes, in one go."""
        groups: dict[tuple[Choices, bool, tuple[int, ...]], list[Gpu]] = {}
        for gpu, (choices, sizes, _) in wanted:
            known = self._steps.setdefault((choices, gpu.name), {})
            if not all(size in known for size in sizes):
                groups.setdefault((choices, gpu.is_cpu, _together(sizes)), []).append(gpu)
        for (choices, is_cpu, sizes), members in groups.items():
            self._simulate(choices, members, sizes, is_cpu=is_cpu)

    def _simulate(self, choices: Choices, gpus: list[Gpu], sizes: tuple[int, ...], *, is_cpu: bool) -> None:
        workload = self.workload(choices)
        batch = np.array(sizes, dtype=float) if "batch" in workload.symbols else None
        setting = as_run(self.setting, workload)
        setting = cpu_setting(setting) if is_cpu else setting
        seq = _seq(workload, len(sizes))
        steps = simulate(workload, gpus, setting, batch=batch, seq=seq, dtype=np.float32, by_kind=False)
        waits = np.minimum(steps.lanes["gpu"], steps.lanes["host"]) if is_cpu else np.zeros_like(steps.seconds)
        seconds, bound = (steps.seconds + waits).T.tolist(), steps.bound.T.tolist()
        for gpu, took, held in zip(gpus, seconds, bound, strict=True):
            self._steps[choices, gpu.name].update(zip(sizes, zip(took, held, strict=True), strict=True))

    def _soonest(self, gpu: Gpu, tried: Sequence[_Tried]) -> Pace:
        """The fastest; of those that are nearly as fast, the one of the smallest batch."""
        able = [one for one in tried if one.fits] or tried
        rates = [
            (size / self._steps[choices, gpu.name][size][0], -size, place)
            for place, (choices, sizes, _) in enumerate(able)
            for size in sizes
        ]
        least = _ENOUGH * max(rates)[0]
        rate, size, place = max((one for one in rates if one[0] >= least), key=lambda one: (one[1], one[0]))
        choices = able[place].choices
        return Pace(
            gpu=gpu,
            choices=choices,
            batch=-size,
            micro_batch=-size,
            step_s=-size / rate,
            memory_bytes=self._need(choices).total_bytes(gpu, -size),
            usable_bytes=room_of(gpu).usable_bytes,
            bound=self._steps[choices, gpu.name][-size][1],
        )


def _together(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes to price for these: parts of the grid grow by three, so that few groups of GPUs are left.

    >>> _together((1, 2, 4, 8)), _together((24,))
    ((1, 2, 4, 8, 16, 32), (24,))
    """
    return GRID[: -(-len(sizes) // _BAND) * _BAND] if sizes == GRID[: len(sizes)] and len(sizes) > 1 else sizes


def _whole(pace: Pace, batch: int) -> Pace:
    """A step of as many samples as were asked for, in parts where they do not fit at once."""
    if batch <= pace.micro_batch:
        return pace
    return replace(pace, batch=batch, step_s=pace.step_s * batch / pace.micro_batch)


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
