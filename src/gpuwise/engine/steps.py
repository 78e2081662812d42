"""Steps of one model at many batches on many GPUs: time, range, what bounds them, memory. All questions take them from here.

  simulate        one GPU by itself: kernels, host, copies and loader on lanes            step/
+ micro-batches   those before the last, which update nothing
+ waits           other GPUs, memory in a slow segment, work that the host does           waits.py
× measured        how far the user's own steps are from what is predicted for them       measured.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpuwise.engine.measured import Correction, correction_of
from gpuwise.engine.needs import Needs
from gpuwise.engine.ranges import Widths, widths_of
from gpuwise.engine.run import Run
from gpuwise.engine.waits import total, waits_of
from gpuwise.hardware.types import Gpu
from gpuwise.step.memory.peak import Memory, MemorySetting
from gpuwise.step.time.least import least_s
from gpuwise.step.time.simulate import simulate
from gpuwise.step.time.stacks import as_run
from gpuwise.step.types import BOUNDS, Array, Setting, StepTimes
from gpuwise.workload.model.coverage import coverage
from gpuwise.workload.model.types import Workload
from gpuwise.workload.transform.share import without_update

__all__ = ["Steps", "correction_by", "main_bound", "predict_steps"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """Every array has the shape (batches, gpus). `last` is the micro-batch that ends a step, on one GPU by itself; `waits_s` is
    what comes on top by what is waited for; `unscaled_s` all of it before the user's measurements."""

    workload: Workload
    gpus: tuple[Gpu, ...]
    batches: tuple[int, ...]
    run: Run
    last: StepTimes
    waits_s: Mapping[str, Array]
    bound_fractions: Mapping[str, Array]
    unscaled_s: Array
    correction: Correction
    needs: Needs

    @cached_property
    def step_s(self) -> Array:
        """Seconds of a step: as measured where the user did, else as predicted."""
        return self.unscaled_s * self.scale

    @cached_property
    def scale(self) -> Array:
        """What the user's measurements multiply every part of a step by, for each GPU."""
        return self.correction.scale(self.gpus)

    @cached_property
    def is_own(self) -> Array:
        """Which of these steps the user measured."""
        return self.correction.is_own(self.batches, self.gpus)

    @cached_property
    def bound(self) -> Array:
        """What holds each step up most, as a place in `BOUNDS`."""
        return main_bound(self.bound_fractions)

    def bound_name(self, point: int = 0, place: int = 0) -> str:
        """What holds this step up most."""
        return BOUNDS[int(self.bound[point, place])]

    @cached_property
    def setting(self) -> Setting:
        """The software and machine as this workload uses them."""
        return as_run(self.run.setting, self.workload)

    @cached_property
    def widths(self) -> Widths:
        """Measured over predicted, the low and the high end, and the rows of evidence behind them."""
        covered = coverage(self.workload).bytes_fraction
        return widths_of(self.run, self.gpus, self.last, self.bound, self.is_own, covered)

    @cached_property
    def low_s(self) -> Array:
        """The low end of the range: not below what the hardware allows, nor above the prediction."""
        found: Array = np.maximum(self.step_s * self.widths.low, np.minimum(self._least_s, self.step_s))
        return found

    @cached_property
    def high_s(self) -> Array:
        """The high end of the range."""
        return self.step_s * self.widths.high

    @property
    def at_limit(self) -> Array:
        """Where the low end is the hardware's limit."""
        return self.low_s > self.step_s * self.widths.low

    @cached_property
    def _least_s(self) -> Array:
        """The hardware's limit; nothing is claimed of steps that the user measured."""
        micro = [_micro(size, self.run) for size in self.batches]
        least = least_s(self.workload, self.gpus, self.setting, **_sizes(self.workload, micro))
        return np.where(self.is_own, 0.0, least)

    def memory(self, point: int = 0, place: int = 0) -> Memory:
        """The peak on one GPU, by what it holds."""
        return self.needs.memory(self.gpus[place], _micro(self.batches[point], self.run))

    @cached_property
    def memory_bytes(self) -> Array:
        """The peak on one GPU."""
        sizes = [_micro(size, self.run) for size in self.batches]
        return np.array([[self.needs.total_bytes(gpu, size) for gpu in self.gpus] for size in sizes])


def predict_steps(
    workload: Workload,
    gpus: Sequence[Gpu],
    run: Run,
    batches: Sequence[int] = (),
    *,
    needs: Needs | None = None,
    correction: Correction | None = None,
    limits_watts: Sequence[float] = (),
    dtype: Any = np.float64,
    by_kind: bool = True,
) -> Steps:
    """Steps of so many samples on each GPU (none given: the batch the model is known at).

    `needs` and a `correction` that are known are not worked out again. `limits_watts` hold each GPU to a power limit of its own.
    Kernels are priced in `dtype`; `last.classes` stay empty where nobody asks for them `by_kind`.
    """
    sizes = tuple(batches) or (workload.batch,)
    micro = [_micro(size, run) for size in sizes]
    setting, at = as_run(run.setting, workload), _sizes(workload, micro)

    def simulated(part: Workload) -> StepTimes:
        return simulate(
            part, gpus, setting, **at, power_limit_watts=limits_watts or run.power_limit_watts, dtype=dtype, by_kind=by_kind
        )

    last = simulated(workload)
    passes = [(last, 1)] + ([(simulated(without_update(workload)), run.accumulate - 1)] if run.accumulate > 1 else [])
    needs = needs or Needs(workload, MemorySetting(display=run.display, gpu_count=run.gpu_count))
    alone = total(times.seconds * count for times, count in passes)
    waits = waits_of(workload, gpus, run, setting, micro, passes, needs)
    whole = total([alone, *waits.values()])
    fractions = {
        name: (total(times.shares[name] * times.seconds * count for times, count in passes) + waits.get(name, 0.0)) / whole
        for name in BOUNDS
    }

    return Steps(
        workload=workload,
        gpus=tuple(gpus),
        batches=sizes,
        run=run,
        last=last,
        waits_s=waits,
        bound_fractions=fractions,
        unscaled_s=whole,
        correction=correction or correction_by(workload, run),
        needs=needs,
    )


def correction_by(workload: Workload, run: Run) -> Correction:
    """What the user's own steps of this run say."""

    def predicted_s(gpu: Gpu, batch: int) -> float:
        return float(predict_steps(workload, [gpu], replace(run, measured=()), [batch], by_kind=False).unscaled_s[0, 0])

    return correction_of(run.measured, workload.batch, predicted_s)


def _micro(batch: int, run: Run) -> int:
    """Samples that are run at once."""
    return -(-batch // run.accumulate)


def _sizes(workload: Workload, batches: Sequence[int]) -> dict[str, Any]:
    """Sizes as `simulate` takes them: those that the workload leaves open."""
    is_open = "seq" in workload.symbols and workload.seq is not None
    return {
        "batch": np.array(batches, dtype=float) if "batch" in workload.symbols else None,
        "seq": np.full(len(batches), float(workload.seq or 0)) if is_open else None,
    }


def main_bound(fractions: Mapping[str, Array]) -> Array:
    """What holds a step up most, as a place in `BOUNDS`. The GPU's work is told as two parts, so what it waits for must outweigh
    both together."""
    busy = fractions["compute"] + fractions["memory"]
    parts = [
        fractions[name] if name in ("compute", "memory", "launch") else np.where(fractions[name] > busy, fractions[name], -1.0)
        for name in BOUNDS
    ]
    found: Array = np.argmax(np.stack(np.broadcast_arrays(*parts)), axis=0)
    return found
