"""The building blocks of plans, computed on first use: the time and memory of each unit of a model."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpuwise.hardware.types import Gpu
from gpuwise.kernels.types import Constants
from gpuwise.scale.cluster.collectives import collective_s
from gpuwise.scale.cluster.shape import Cluster
from gpuwise.scale.plans.types import group
from gpuwise.scale.plans.unit_memory import Around, Replay, UnitMemory, around_bytes, replay_of, unit_memory
from gpuwise.scale.plans.unit_times import Sizes, UnitTimes, price, update_times
from gpuwise.scale.split.data_parallel import Timeline, timeline_of
from gpuwise.scale.split.share import Degrees
from gpuwise.step.types import Array, Setting
from gpuwise.workload.model.types import Workload, no_collection
from gpuwise.workload.transform.parts import Parts
from gpuwise.workload.transform.share import rank_step

__all__ = ["Costs", "longest"]

_SMOOTH = 6.0  # as in a step on one GPU: lanes nearly as long as the longest add a little


@dataclass(kw_only=True, eq=False)
class Costs:
    """One model on one kind of GPU in one setting."""

    parts: Parts
    gpu: Gpu
    setting: Setting
    sizes: Sizes
    constants: Constants | None = None
    power_limit_watts: float | None = None
    _times: dict[Degrees, UnitTimes] = field(default_factory=dict)
    _memory: dict[Degrees, UnitMemory] = field(default_factory=dict)
    _replay: list[Replay] = field(default_factory=list)
    _update: list[tuple[float, float]] = field(default_factory=list)
    _lines: dict[int, Timeline] = field(default_factory=dict)
    _sums: dict[tuple[object, ...], tuple[Array, Array]] = field(default_factory=dict)
    _ranks: dict[tuple[object, ...], Workload] = field(default_factory=dict)

    def times(self, degrees: Degrees) -> UnitTimes:
        """Seconds of each unit."""
        if degrees not in self._times:
            self._times[degrees] = price(
                self.parts,
                degrees,
                self.gpu,
                self.setting,
                self.sizes,
                constants=self.constants,
                power_limit_watts=self.power_limit_watts,
            )
        return self._times[degrees]

    def sums(self, degrees: Degrees, cluster: Cluster) -> tuple[Array, Array]:
        """Seconds of sums over the ranks that share matrices, by unit and point, in the forward and the backward pass."""
        key = (degrees, cluster.gpus_per_node, cluster.node_count, cluster.name, cluster.network_bytes_per_s)
        if key not in self._sums:
            self._sums[key] = self._summed(degrees, cluster)
        return self._sums[key]

    def _summed(self, degrees: Degrees, cluster: Cluster) -> tuple[Array, Array]:
        times = self.times(degrees)
        found = np.zeros((2, *times.forward_s.shape))
        inner, outer = group(1, degrees.tensor, cluster.gpus_per_node)
        ops = ("reduce_scatter", "all_gather") if degrees.tokens else ("all_reduce",)
        known: dict[bytes, Array] = {}
        for (unit, phase), rows in times.messages.items():
            for size in rows:
                if size.tobytes() not in known:
                    seconds = [collective_s(op, size, cluster, inner, outer) for op in ops]
                    known[size.tobytes()] = np.sum(seconds, axis=0)
                found[phase, unit] += known[size.tobytes()]
        return found[0], found[1]

    def timeline(self, point: int) -> Timeline:
        """The timeline of an undivided step on one GPU."""
        if point not in self._lines:
            workload, sizes = self.parts.workload, self.sizes
            self._lines[point] = timeline_of(
                workload,
                self.gpu,
                self.setting,
                batch=self.batch(point),
                seq=sizes.seq,
                power_limit_watts=self.power_limit_watts,
                constants=self.constants,
            )
        return self._lines[point]

    def batch(self, point: int) -> float | None:
        """The samples of this micro-batch, if the workload leaves them open."""
        return float(self.sizes.batches[point]) if "batch" in self.parts.workload.symbols else None

    def memory(self, degrees: Degrees) -> UnitMemory:
        """Bytes of each unit."""
        if degrees not in self._memory:
            self._memory[degrees] = unit_memory(self.parts, degrees, self.sizes)
        return self._memory[degrees]

    @property
    def update(self) -> tuple[float, float]:
        """Seconds that the GPU and the host need to update one parameter."""
        if not self._update:
            whole = update_times(
                self.parts, self.gpu, self.setting, power_limit_watts=self.power_limit_watts, constants=self.constants
            )
            count = max(1.0, self.memory(Degrees()).total_parameters)
            self._update.append((whole[0] / count, whole[1] / count))
        return self._update[0]

    @property
    def replay(self) -> Replay:
        """Bytes of an undivided step on one GPU, at each micro-batch."""
        if not self._replay:
            self._replay.append(replay_of(self.parts, self.gpu, self.sizes))
        return self._replay[0]

    def rank_step(self, *, zero_stage: int, ranks: int, recomputes: bool, accumulates: bool, offload: bool) -> Workload:
        """The step of one of these ranks, which divide only samples and, depending on the ZeRO stage, the model. It is built
        once.
        """
        key = (zero_stage, ranks, recomputes, accumulates, offload)
        if key not in self._ranks:
            blocks = (1, len(self.parts.kinds)) if recomputes else (0, 0)
            with no_collection():
                self._ranks[key] = rank_step(
                    self.parts.workload,
                    checkpoint=blocks,
                    zero_stage=zero_stage,
                    ranks=ranks,
                    accumulates=accumulates,
                    offload=offload,
                ).workload
        return self._ranks[key]

    def around(self, ranks: int) -> Around:
        """The memory that each device holds besides tensors."""
        return around_bytes(self.parts, self.gpu, ranks)

    @property
    def counts(self) -> Array:
        """How often each unit runs in the whole model."""
        found = np.bincount(self.parts.kinds, minlength=self.parts.units).astype(float)
        found[0] += 1.0
        found[-1] += 1.0
        return found


def longest(gpu_s: Array, host_s: Array) -> Array:
    """The longer lane, slightly extended if the other is nearly as long."""
    top = np.maximum(np.maximum(gpu_s, host_s), 1e-12)
    found: Array = top * ((gpu_s / top) ** _SMOOTH + (host_s / top) ** _SMOOTH) ** (1.0 / _SMOOTH)
    return found
