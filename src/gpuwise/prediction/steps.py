"""Predicts steps of one model at many batches on many GPUs: time, range, bound and memory. Every question uses this module.

  simulate        one GPU on its own: kernels, host, copies and loader on lanes           step/
+ micro-batches   all but the last, without an update
+ waits           for other GPUs, memory in a slow segment, work on the host
× measured        ratio of the user's own measurements to their predictions               ranges.py
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from gpuwise.core.errors import BadValue
from gpuwise.hardware.machines import find_link
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.ranges import Correction, Widths, correction_of, widths_of
from gpuwise.prediction.run import Run
from gpuwise.prediction.ways import Needs
from gpuwise.scale.cluster.collectives import collective_s, gradient_bytes, slowed_fraction, waits_fraction, weight_bytes
from gpuwise.scale.cluster.shape import Cluster, usual_cluster
from gpuwise.scale.split.data_parallel import all_reduce_s, averaged, exposed_s, gradients_of, timeline_at
from gpuwise.scale.split.habits import gathered_width, habits_of, sharded_s
from gpuwise.step.memory.peak import Memory, MemorySetting
from gpuwise.step.time.least import least_s
from gpuwise.step.time.setting import as_run, slow_s
from gpuwise.step.time.simulate import simulate
from gpuwise.step.types import BOUNDS, Array, Setting, StepTimes
from gpuwise.workload.model.coverage import coverage
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.types import DTYPE_BYTES, Form, Workload
from gpuwise.workload.transform.checkpoint import blocks_of
from gpuwise.workload.transform.share import without_update

__all__ = ["Steps", "correction_by", "link_bytes_per_s", "main_bound", "power_curve", "predict_steps", "total", "waits_of"]

# ---------------------------------------------------------------- waits
# Waiting time outside the step's own lanes: for other GPUs, for memory in a slow segment, for work on the host.

_USUAL_LINK = "PCIe 3.0 x16"
_SUMS_A_BLOCK = 2  # with split matrices: after attention and after the MLP
_HIDDEN = ("input", "copy")  # the part that overlaps with the GPU's work
_HIDDEN_IN_RANGES = (*_HIDDEN, "communication")  # ranges were fitted with these values
Passes = Sequence[tuple[StepTimes, int]]


def total(parts: Iterable[Array]) -> Array:
    """Return the sum of arrays of one shape."""
    return reduce(np.add, parts)


def waits_of(
    workload: Workload, gpus: Sequence[Gpu], run: Run, setting: Setting, micro: Sequence[int], passes: Passes, needs: Needs
) -> dict[str, Array]:
    """Return the seconds spent waiting outside the lanes, by cause, for micro-batches of these sizes. `passes` are the
    micro-batches of a step, the last first, each with its number of runs.
    """
    found = {}
    if run.gpu_count > 1:
        found["communication"] = _communication_s(workload, gpus, run, setting, micro, passes)
    slow = _slow_s(gpus, micro, passes, needs)
    if slow is not None:
        found["memory"] = slow
    if run.offloaded_bytes:
        seconds = [_offloaded_s(gpu, run) for gpu in gpus]
        found["copy"] = np.broadcast_to(np.array(seconds), (len(micro), len(gpus)))
    return found


def _slow_s(gpus: Sequence[Gpu], micro: Sequence[int], passes: Passes, needs: Needs) -> Array | None:
    """Return the extra time for data in a slow memory segment; None if no GPU has one."""
    places = [place for place, gpu in enumerate(gpus) if gpu.slow_memory_bytes_per_s is not None]
    if not places:
        return None
    found = np.zeros((len(micro), len(gpus)))
    for place in places:
        for point, size in enumerate(micro):
            moved = sum(float(times.moved_bytes[point, 0]) * count for times, count in passes)
            found[point, place] = slow_s(gpus[place], needs.total_bytes(gpus[place], size), moved)
    return found


def _offloaded_s(gpu: Gpu, run: Run) -> float:
    """Send gradients to the host, update there, and send weights back, one after the other."""
    link = run.setting.link_bytes_per_s or link_bytes_per_s(gpu)
    return run.offloaded_bytes / link + run.host_bytes / run.setting.host.memory_bytes_per_s


def link_bytes_per_s(gpu: Gpu) -> float:
    """Return the rate that copies between this GPU and its host reach."""
    name = f"PCIe {gpu.pcie_generation}.0 x{gpu.pcie_lanes}" if gpu.pcie_generation and gpu.pcie_lanes else _USUAL_LINK
    link = find_link(name)
    return link.bytes_per_s_one_way * link.achieved_fraction


# ---------------------------------------------------------------- several GPUs


@lru_cache(maxsize=1024)
def _joined(gpu: Gpu, count: int, link: str = "") -> Cluster:
    """Return this many GPUs connected in the usual way, or by this link only."""
    return usual_cluster(gpu, count, link=link)


def _communication_s(
    workload: Workload, gpus: Sequence[Gpu], run: Run, setting: Setting, micro: Sequence[int], passes: Passes
) -> Array:
    """Return the time that messages between GPUs, and waiting for each other, add to a step."""
    if workload.mode != "train":
        return _summed_s(workload, gpus, run, micro)
    if run.zero_stage:
        return _sharded_s(workload, gpus, run, setting, passes)
    last, slowed = passes[0][0], slowed_fraction(setting)
    alone = total(times.seconds * count for times, count in passes)
    found = np.zeros_like(alone, dtype=np.float64)
    for point, size in enumerate(micro):
        gradients = gradients_of(workload, float(size) if "batch" in workload.symbols else None)
        for place, gpu in enumerate(gpus):
            line = timeline_at(workload, last, point, place)
            cluster = run.cluster or _joined(gpu, run.gpu_count, run.gpu_link)
            exposed = averaged(line, gradients, cluster, slowed_fraction=slowed).exposed_s
            found[point, place] = exposed + waits_fraction(run.gpu_count) * (alone[point, place] + exposed)
    return found


def _sharded_s(workload: Workload, gpus: Sequence[Gpu], run: Run, setting: Setting, passes: Passes) -> Array:
    """Return the time that GPUs which divide the optimizer's state add to a step: gradients are averaged while the last
    micro-batch runs, and weights are gathered after it. Stage 3 divides gradients and gathers weights in every micro-batch, as
    plans with FSDP do.
    """
    last = passes[0][0].lanes["gpu"]
    if run.zero_stage < 3:
        moved = gradient_bytes(workload)
        return np.array([[exposed_s(moved, gpu, run.gpu_count, float(row[at])) for at, gpu in enumerate(gpus)] for row in last])
    habits, units = habits_of(setting), len(blocks_of(workload)) + 2
    weights = weight_bytes(workload) * run.gpu_count * gathered_width(workload.precision)
    each = np.array([weights, gradient_bytes(workload)]) / units
    alone = total(times.seconds * count for times, count in passes)
    found = np.zeros_like(alone, dtype=np.float64)
    for place, gpu in enumerate(gpus):
        cluster = run.cluster or _joined(gpu, run.gpu_count, run.gpu_link)
        ranks = (cluster.gpus_per_node, cluster.node_count)
        gather = units * collective_s("all_gather", each[:1], cluster, *ranks)
        scatter = units * collective_s("reduce_scatter", each[1:], cluster, *ranks)
        for point in range(len(alone)):
            for times, count in passes:
                line = timeline_at(workload if times is passes[0][0] else without_update(workload), times, point, place)
                forward, backward = line.forward_end_s, line.backward_end_s - line.forward_end_s
                shown, hidden = sharded_s(gather, gather + scatter, np.array([forward]), np.array([backward]), habits)
                found[point, place] += count * float(shown[0] + habits.contention_fraction * hidden[0])
    return found + waits_fraction(run.gpu_count) * (alone + found)


def _summed_s(workload: Workload, gpus: Sequence[Gpu], run: Run, micro: Sequence[int]) -> Array:
    """Return the time that sums over split matrices add to an inference step; GPUs that run their own samples do not wait."""
    if not run.splits_matrices:
        return np.zeros((len(micro), len(gpus)))
    blocks = blocks_of(workload)
    handed = [_between_blocks(workload, blocks[-1], size) for size in micro]
    times = _SUMS_A_BLOCK * len(blocks)
    return np.array([[times * all_reduce_s(size, gpu, run.gpu_count, run.gpu_link) for gpu in gpus] for size in handed])


def _between_blocks(workload: Workload, block: str, micro: int) -> float:
    """Return the bytes that one block passes to the next."""
    last = [call for call in workload.calls if workload.modules[call.module].startswith(block) and call.writes][-1]
    values = product_values(workload, float(micro) if "batch" in workload.symbols else None)[0]
    spec = workload.tensors[workload.buffers[last.writes[0]].tensor]
    return float(values[spec.elements]) * DTYPE_BYTES[spec.dtype]


# ---------------------------------------------------------------- steps


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """Every array has the shape (batches, gpus). `last` is the micro-batch that ends a step, on one GPU alone; `waits_s` is the
    additional waiting time by cause; `unscaled_s` is the total before scaling to the user's measurements.
    """

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
        """Seconds per step: measured if the user provided it, otherwise predicted."""
        return self.unscaled_s * self.scale

    @cached_property
    def scale(self) -> Array:
        """The factor that the user's measurements apply to every part of a step, for each GPU."""
        return self.correction.scale(self.gpus) if self.correction.steps else np.ones(len(self.gpus))

    @cached_property
    def is_own(self) -> Array:
        """Which of these steps the user measured."""
        return self.correction.is_own(self.batches, self.gpus)

    @cached_property
    def bound(self) -> Array:
        """What limits each step most, as an index into `BOUNDS`."""
        return main_bound(self.bound_fractions)

    def bound_name(self, point: int = 0, place: int = 0) -> str:
        """What limits this step most."""
        return BOUNDS[int(self.bound[point, place])]

    @cached_property
    def setting(self) -> Setting:
        """The software and machine as this workload uses them."""
        return as_run(self.run.setting, self.workload)

    @cached_property
    def widths(self) -> Widths:
        """Measured over predicted time, the low and the high end, and the rows of evidence behind them."""
        covered = coverage(self.workload).bytes_fraction
        return widths_of(
            self.run, self.gpus, self.last, main_bound(self.bound_fractions, _HIDDEN_IN_RANGES), self.is_own, covered
        )

    @cached_property
    def low_s(self) -> Array:
        """The low end of the range: not below the hardware's limit, nor above the prediction."""
        found: Array = np.maximum(self.step_s * self.widths.low, np.minimum(self._least_s, self.step_s))
        return found

    @cached_property
    def high_s(self) -> Array:
        """The high end of the range."""
        return self.step_s * self.widths.high

    @property
    def at_limit(self) -> Array:
        """Whether the low end of each range is the hardware's limit."""
        return self.low_s > self.step_s * self.widths.low

    @cached_property
    def _least_s(self) -> Array:
        """The hardware's limit; steps that the user measured have none."""
        micro = [_micro(size, self.run) for size in self.batches]
        least = least_s(self.workload, self.gpus, self.setting, **_sizes(self.workload, micro))
        return np.where(self.is_own, 0.0, least)

    def memory(self, point: int = 0, place: int = 0) -> Memory:
        """The peak on one GPU, by category."""
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
    """Predict steps of these batch sizes on each GPU (by default the model's own batch).

    `needs` and a `correction` are reused if given. `limits_watts` sets a power limit for each GPU. Kernel times are computed in
    `dtype`; `last.classes` stay empty unless requested with `by_kind`.
    """
    sizes = tuple(batches) or (workload.batch,)
    micro = [_micro(size, run) for size in sizes]
    setting, limit = as_run(run.setting, workload), tuple(limits_watts) or run.power_limit_watts
    how = {"power_limit_watts": limit, "dtype": dtype, "by_kind": by_kind}
    last = _alone(workload, gpus, setting, micro, **how)
    passes = [(last, 1)]
    if run.accumulate > 1:
        passes += [(_alone(without_update(workload), gpus, setting, micro, **how), run.accumulate - 1)]
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


_MOST_KEPT = 16  # simulations of one workload
_kept: WeakKeyDictionary[Form, tuple[tuple[object, StepTimes], ...]] = WeakKeyDictionary()


def _alone(workload: Workload, gpus: Sequence[Gpu], setting: Setting, micro: Sequence[int], **how: Any) -> StepTimes:
    """Return the step of each micro-batch on each GPU alone. The latest are kept, because steps on two, four and eight of each
    GPU ask for the same again.
    """
    key, known = (tuple(gpus), tuple(micro), workload.seq, setting, how), _kept.get(workload.form, ())
    found = next((times for other, times in known if other == key), None)
    if found is None:
        found = simulate(workload, gpus, setting, **_sizes(workload, micro), **how)
        if len(micro) == 1:  # many sizes take much memory, and are not asked for again
            _kept[workload.form] = (*known, (key, found))[-_MOST_KEPT:]
    return found


def correction_by(workload: Workload, run: Run) -> Correction:
    """Return the correction from the user's own steps of this run."""

    def predicted_s(gpu: Gpu, batch: int) -> float:
        return float(predict_steps(workload, [gpu], replace(run, measured=()), [batch], by_kind=False).unscaled_s[0, 0])

    return correction_of(run.measured, workload.batch, predicted_s) if run.measured else Correction()


def _micro(batch: int, run: Run) -> int:
    """Return the samples per micro-batch."""
    return -(-batch // run.accumulate)


def _sizes(workload: Workload, batches: Sequence[int]) -> dict[str, Any]:
    """Return sizes as `simulate` expects them: those that the workload leaves open."""
    is_open = "seq" in workload.symbols and workload.seq is not None
    return {
        "batch": np.array(batches, dtype=float) if "batch" in workload.symbols else None,
        "seq": np.full(len(batches), float(workload.seq or 0)) if is_open else None,
    }


def main_bound(fractions: Mapping[str, Array], hidden: Sequence[str] = _HIDDEN) -> Array:
    """Return what takes the largest share of a step, as an index into `BOUNDS`. The GPU's work is divided into two parts, so
    anything `hidden` behind it must outweigh both together.
    """
    busy = fractions["compute"] + fractions["memory"]
    parts = [np.where(fractions[name] > busy, fractions[name], -1.0) if name in hidden else fractions[name] for name in BOUNDS]
    found: Array = np.argmax(np.stack(np.broadcast_arrays(*parts)), axis=0)
    return found


# ---------------------------------------------------------------- fewer watts


def power_curve(
    workload: Workload, gpu: Gpu, run: Run, limits_watts: Sequence[float], batch: int | None = None
) -> tuple[float, ...]:
    """Return the speed of one step under each limit, relative to that at the board's default limit; higher limits add nothing."""
    for limit in limits_watts:
        if not 0 < limit < math.inf:
            raise BadValue(f"invalid power limit of {limit:g} W", hint="give a limit above 0 W")
    limits = (*map(float, limits_watts), math.inf)
    size = batch or workload.batch
    steps = predict_steps(workload, [gpu] * len(limits), run, [size], limits_watts=limits, by_kind=False)
    *seconds, sold = steps.step_s[0].tolist()
    return tuple(sold / taken for taken in seconds)
