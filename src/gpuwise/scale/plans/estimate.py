"""Estimates the step time under many plans of one mesh at once, from unit times, messages and the pipeline.

The slowest stage determines the step: its micro-batches in sequence, each taking the longer of GPU and host; messages that a
layer waits for; gradients and weights, which overlap with compute as far as possible; then the time to fill and drain the
pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpuwise.scale.cluster.collectives import collective_s
from gpuwise.scale.cluster.shape import Cluster
from gpuwise.scale.plans.costs import Costs, longest
from gpuwise.scale.plans.types import RECOMPUTE, Mesh, group
from gpuwise.scale.split.data_parallel import averaged, gradients_of, recomputing
from gpuwise.scale.split.habits import Habits, gathered_width, sharded_s
from gpuwise.scale.split.pipeline import blocks_of_stages, stage_units
from gpuwise.step.types import Array
from gpuwise.workload.model.types import PHASES

__all__ = ["Passage", "Variants", "passage", "stages_of"]

_FORWARD = PHASES.index("forward")
_NONE, _SELECTIVE, _FULL = range(len(RECOMPUTE))


@dataclass(frozen=True, kw_only=True, eq=False)
class Variants:
    """Plans of one mesh, one row each: the index of the micro-batch size, the number of micro-batches, the ZeRO stage, the
    index in `RECOMPUTE`, and whether the optimizer runs on the host.
    """

    point: Array
    micro_count: Array
    zero: Array
    recompute: Array
    offload: Array

    def __len__(self) -> int:
        return len(self.point)

    def row(self, place: int) -> Variants:
        """Return one of these plans."""
        at = slice(place, place + 1)
        return Variants(
            point=self.point[at],
            micro_count=self.micro_count[at],
            zero=self.zero[at],
            recompute=self.recompute[at],
            offload=self.offload[at],
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Passage:
    """The seconds of a step by category at its slowest stage, one row per plan. `messages` gives the collective, the number of
    messages, their bytes and their seconds (hidden or not) for each purpose; `stages` are the units of each stage.
    """

    step_s: Array
    compute_s: Array
    recompute_s: Array
    update_s: Array
    exposed_s: Array
    hidden_s: Array
    bubble_s: Array
    wait_s: Array
    messages: Mapping[str, tuple[str, Array, Array, Array]]
    stages: Array


def stages_of(costs: Costs, mesh: Mesh, *, even: bool = False) -> tuple[int, ...]:
    """Return how many blocks each chunk of each stage gets."""
    count, chunks = len(costs.parts.kinds), mesh.pipeline * mesh.chunks
    if even and count % chunks == 0:
        return (count // chunks,) * chunks
    times = costs.times(mesh.degrees)
    whole = (times.forward_s + times.backward_s)[:, times.forward_s.shape[1] // 2]
    return blocks_of_stages([whole[kind] for kind in costs.parts.kinds], chunks, whole[0], whole[-1])


def passage(costs: Costs, cluster: Cluster, mesh: Mesh, plans: Variants, habits: Habits) -> Passage:
    """Compute all these plans at once."""
    return _Step(costs, cluster, mesh, plans, habits).passage()


class _Step:
    """Arrays of shape (stages, plans) or (units, plans)."""

    def __init__(self, costs: Costs, cluster: Cluster, mesh: Mesh, plans: Variants, habits: Habits) -> None:
        self.costs, self.cluster, self.mesh, self.plans, self.habits = costs, cluster, mesh, plans, habits
        self.times = costs.times(mesh.degrees)
        self.memory = costs.memory(mesh.degrees)
        self.stages = stage_units(costs.parts, stages_of(costs, mesh, even=habits.even_stages), mesh.chunks)
        self.per_node = cluster.gpus_per_node
        self.messages: dict[str, tuple[str, Array, Array, Array]] = {}
        self.blocks = np.ones((costs.parts.units, 1))
        self.blocks[[0, -1]] = 0.0  # what runs before and after the blocks is not recomputed
        self.forward = self._at(self.times.forward_s)
        self.backward = self._at(self.times.backward_s)

    def _at(self, by_point: Array) -> Array:
        found: Array = by_point[:, self.plans.point]
        return found

    def passage(self) -> Passage:
        many = self.plans.micro_count
        sums, rings, experts = self._tensor_s(), self._context_s(), self._expert_s()
        again = self._again(sums[0] + experts + rings[0])
        between = sums[0] + sums[1] + 2.0 * experts + rings[0] + rings[1]
        backward = self.backward + again
        shown, hidden = self._sharded_s(self.forward, backward)
        compute = self.stages @ (self.forward + self.backward)
        waits = self.stages @ (between + shown) + self._neighbour_s()
        host = self._host_s()
        once = compute + self.stages @ again + waits
        update, host_update = self._update_s()
        total = longest(many * once + update, many * host + host_update)
        tail, behind = self._end_s(backward, again)
        offload = self._offload_s()
        whole = total + tail + offload
        slowest = np.argmax(whole, axis=0)
        micro = longest(once, host)
        bubble = (micro.sum(axis=0) - _pick(micro, slowest)) / self.mesh.chunks

        uneven = self.habits.waits_per_doubling * np.log2(self.mesh.ranks)

        def of(value: Array) -> Array:
            return _pick(np.broadcast_to(value, whole.shape), slowest)

        step = of(whole) + bubble + self.habits.step_s
        return Passage(
            step_s=step * (1.0 + uneven),
            compute_s=of(many * compute),
            recompute_s=of(many * (self.stages @ again)),
            update_s=of(update + offload),
            exposed_s=of(many * waits + tail),
            hidden_s=of(many * (self.stages @ hidden) + behind),
            bubble_s=bubble,
            wait_s=of(total - many * once - update) + self.habits.step_s + step * uneven,
            messages=self.messages,
            stages=self.stages,
        )

    # ------------------------------------------------------------ inside a layer

    def _tensor_s(self) -> tuple[Array, Array]:
        """Sums over the ranks that share matrices, by unit, in both passes."""
        if self.mesh.tensor == 1:
            return np.zeros_like(self.forward), np.zeros_like(self.forward)
        found = [self._at(seconds) for seconds in self.costs.sums(self.mesh.degrees, self.cluster)]
        op = "reduce_scatter" if self.mesh.degrees.tokens else "all_reduce"
        for (unit, phase), rows in self.times.messages.items():
            found[phase][unit] += len(rows) * self.habits.message_s
            size = np.sum(rows, axis=0)[self.plans.point] / len(rows)
            self._note("tensor", op, unit, float(len(rows)), size, found[phase][unit] / len(rows))
        return found[0], found[1]

    def _expert_s(self) -> Array:
        """Sending tokens to their experts and back, in one pass."""
        if self.mesh.expert == 1:
            return np.zeros_like(self.forward)
        inner, outer = group(self.mesh.tensor, self.mesh.expert, self.per_node)
        size = self.times.exchanged / self.mesh.tensor
        seconds = self._at(2.0 * collective_s("all_to_all", size, self.cluster, inner, outer))
        for unit in np.flatnonzero(size.any(axis=1)).tolist():
            self._note("expert", "all_to_all", unit, 4.0, self._at(size)[unit], seconds[unit] / 2.0)
        return seconds

    def _context_s(self) -> tuple[Array, Array]:
        """Passing keys and values around a ring, while attention computes."""
        count = self.mesh.sequence
        if count == 1:
            return np.zeros_like(self.forward), np.zeros_like(self.forward)
        _, outer = group(self.mesh.tensor, count, self.per_node)
        near, far = (2, 1) if outer == 1 else (1, 2)
        size = self._at(self.times.passed / self.mesh.tensor)
        ring = (count - 1) * collective_s("send_recv", size, self.cluster, min(near, self.per_node), far)
        for unit in np.flatnonzero(size.any(axis=1)).tolist():
            self._note("sequence", "send_recv", unit, 3.0 * (count - 1), size[unit], ring[unit] / (count - 1))
        room = self.habits.overlap_fraction / 2.0  # attention is about half of a layer where its sequence is worth dividing
        return self._felt(ring, room * self.forward), self._felt(2.0 * ring, room * self.backward)

    def _felt(self, message_s: Array, room_s: Array) -> Array:
        """Return the time that a message adds to a step with this much compute in parallel: the part that does not overlap, and a
        share of the part that does.
        """
        shown = np.maximum(0.0, message_s - room_s)
        found: Array = shown + self.habits.contention_fraction * (message_s - shown)
        return found

    def _again(self, waits: Array) -> Array:
        """Seconds of recomputation by unit: the cheap ops, or a whole block with its messages."""
        full = (self.forward + waits) * self.blocks
        found = np.zeros_like(self.forward)
        found = np.where(self.plans.recompute == _SELECTIVE, self._at(self.times.again_s) * self.blocks, found)
        return np.where(self.plans.recompute == _FULL, full, found)

    def _host_s(self) -> Array:
        """Seconds that the host needs to launch a micro-batch of a stage."""
        again = np.where(self.plans.recompute == _SELECTIVE, self._at(self.times.host_again_s), 0.0)
        again = np.where(self.plans.recompute == _FULL, self._at(self.times.host_forward_s), again) * self.blocks
        issued = self._at(self.times.host_forward_s + self.times.host_backward_s) + again
        messages = np.zeros((self.costs.parts.units, 1))
        for (unit, phase), rows in self.times.messages.items():
            messages[unit] += len(rows) * (2.0 if phase == _FORWARD else 1.0)
        found: Array = self.stages @ (issued + messages * self.habits.message_host_s)
        return found

    # ------------------------------------------------------------ weights and gradients

    def _width(self, what: str) -> float:
        """Return the size in transit of one byte of weights or gradients."""
        return gathered_width(self.costs.parts.workload.precision) if what == "weight" else 1.0

    def _data_group(self) -> tuple[int, int]:
        return group(self.mesh.tensor, self.mesh.sequence * self.mesh.data, self.per_node)

    def _sharded_s(self, forward: Array, backward: Array) -> tuple[Array, Array]:
        """Seconds that a micro-batch waits for sharded weights and gradients, by unit, and seconds that overlap."""
        zero = self.plans.zero
        inner, outer = self._data_group()
        if inner * outer == 1:
            return np.zeros_like(forward), np.zeros_like(forward)
        gather = collective_s("all_gather", self.memory.weight * self._width("weight"), self.cluster, inner, outer)[:, None]
        scatter = collective_s("reduce_scatter", self.memory.gradient, self.cluster, inner, outer)[:, None]
        stage3, stage2 = (zero == 3), (zero == 2) & (self.plans.micro_count > 1)
        ahead = np.where(stage3, gather, 0.0)
        behind = np.where(stage3, gather + scatter, np.where(stage2, scatter, 0.0))
        shown, _ = sharded_s(ahead, behind, forward, backward, self.habits)
        shown = np.where(stage3 & (np.arange(len(shown))[:, None] == 0), np.maximum(shown, ahead), shown)
        hidden = ahead + behind - shown
        if stage3.any():
            for unit in range(len(gather)):
                size = self.memory.weight[unit] * self._width("weight")
                self._note("weights", "all_gather", unit, 2.0 * stage3, size, np.where(stage3, gather[unit], 0.0))
        if (stage2 | stage3).any():
            for unit in range(len(gather)):
                self._note(
                    "gradients", "reduce_scatter", unit, 1.0 * (stage2 | stage3), self.memory.gradient[unit], scatter[unit]
                )
        return shown + self.habits.contention_fraction * hidden, hidden

    def _end_s(self, backward: Array, again: Array) -> tuple[Array, Array]:
        """Averaging gradients once per step, and distributing new weights: exposed and overlapped seconds, by stage."""
        inner, outer = self._data_group()
        none = np.zeros((len(self.stages), len(self.plans)))
        if inner * outer == 1:
            return none, none
        zero, many = self.plans.zero, self.plans.micro_count
        gradients = (self.stages @ self.memory.gradient)[:, None]
        weights = (self.stages @ self.memory.weight)[:, None] * self._width("weight")
        reduce = collective_s("all_reduce", gradients, self.cluster, inner, outer)
        scatter = collective_s("reduce_scatter", gradients, self.cluster, inner, outer)
        gather = collective_s("all_gather", weights, self.cluster, inner, outer)
        during = np.where(zero == 0, reduce, np.where((zero == 1) | ((zero == 2) & (many == 1)), scatter, 0.0))
        after = np.where((zero == 1) | (zero == 2), gather, 0.0)
        room = self.habits.data_overlap_fraction * (self.stages @ backward)
        last = during / np.maximum(1.0, self.stages.sum(axis=1))[:, None]  # the last gradients cannot overlap with anything
        shown = np.where(during > 0, np.maximum(last, during - room), 0.0)
        hidden = during - shown
        felt = self.habits.contention_fraction * hidden
        if self._in_buckets(gradients):
            rows = np.flatnonzero(during[0] > 0)
            for row, (took, longer) in zip(rows.tolist(), self._buckets(rows, self.stages @ again), strict=True):
                during[0, row], shown[0, row], felt[0, row] = took, longer, 0.0
                hidden[0, row] = max(0.0, took - longer)
        stage = int(np.argmax(gradients))
        op = "all_reduce" if (zero == 0).all() else "reduce_scatter"
        self._note("gradients", op, None, 1.0 * (during[stage] > 0), gradients[stage], during[stage])
        self._note("weights", "all_gather", None, 1.0 * (after[stage] > 0), weights[stage], after[stage])
        return shown + after + felt, hidden

    def _in_buckets(self, gradients: Array) -> bool:
        """Return whether gradients are timed individually: only samples are divided, and a GPU can hold all gradients."""
        alone = self.mesh.ranks == self.mesh.data and self.mesh.expert == 1
        return self.habits.slowed_fraction is not None and alone and gradients.sum() < self.costs.gpu.memory_bytes

    def _buckets(self, rows: Array, again: Array) -> list[tuple[float, float]]:
        """Seconds of messages, and by how much they extend the step, as DistributedDataParallel averages gradients."""
        known: dict[tuple[int, int, int], tuple[float, float]] = {}
        found = []
        for row in rows.tolist():
            point, whole = int(self.plans.point[row]), int(self.plans.zero[row] == 0)
            key = (point, whole, int(self.plans.recompute[row]))
            if key not in known:
                overlap = averaged(
                    recomputing(self.costs.timeline(point), float(again[0, row])),
                    gradients_of(self.costs.parts.workload, self.costs.batch(point), self.costs.sizes.seq),
                    self.cluster,
                    "all_reduce" if whole else "reduce_scatter",
                    slowed_fraction=self.habits.slowed_fraction or 0.0,
                )
                known[key] = overlap.comm_s, overlap.exposed_s
            found.append(known[key])
        return found

    def _neighbour_s(self) -> Array:
        """Seconds to send data to the next stage and back, for each micro-batch."""
        if self.mesh.pipeline == 1:
            return np.zeros((1, len(self.plans)))
        stride = self.mesh.tensor * self.mesh.sequence * self.mesh.data
        near, far = (2, 1) if stride < self.per_node else (1, 2)
        handed = self._at(self.memory.handed[1:-1].max(axis=0, keepdims=True)) if len(self.memory.handed) > 2 else 0.0
        size = np.asarray(handed / (self.mesh.tensor if self.mesh.degrees.tokens else 1))
        seconds = collective_s("send_recv", size, self.cluster, near, far) + self.habits.neighbour_s
        count = 2.0 * self.mesh.chunks
        many = self.plans.micro_count
        self.messages["pipeline"] = ("send_recv", count * many, count * many * size[0], count * many * seconds[0])
        return np.repeat(count * seconds, self.mesh.pipeline, axis=0)

    # ------------------------------------------------------------ the update

    def _update_s(self) -> tuple[Array, Array]:
        """Seconds of GPU and host for the weights that a rank updates."""
        ranks = self.mesh.data * self.mesh.sequence
        share = np.where(self.plans.zero >= 1, 1.0 / ranks, 1.0) * np.where(self.plans.offload, 0.0, 1.0)
        parameters = (self.stages @ self.memory.parameters)[:, None] * share
        gpu, host = self.costs.update
        return parameters * gpu, parameters * host

    def _offload_s(self) -> Array:
        """Sending gradients to the host, updating there, and sending weights back."""
        ranks = np.where(self.plans.zero >= 1, self.mesh.data * self.mesh.sequence, 1)
        share = np.where(self.plans.offload, 1.0 / ranks, 0.0)
        link = self.cluster.wires.host_link
        rate = link.bytes_per_s_one_way * link.achieved_fraction / self.cluster.wires.shared_by
        gradient, weight, state = (
            (self.stages @ part)[:, None] for part in (self.memory.gradient, self.memory.weight, self.memory.state)
        )
        host_bytes = gradient + 2.0 * (weight + state)
        host_rate = self.costs.setting.host.memory_bytes_per_s / self.per_node  # ranks of a node share the host's memory
        found: Array = share * ((gradient + weight) / rate + host_bytes / host_rate)
        return found

    def _note(self, purpose: str, op: str, unit: int | None, count: object, size: object, seconds: object) -> None:
        """Record the messages of a step: those of a unit occur with every micro-batch of the fullest stage."""
        times = 1.0 if unit is None else self.stages[:, unit].max() * self.plans.micro_count
        number = np.broadcast_to(np.asarray(count, dtype=float) * times, (len(self.plans),))
        before = self.messages.get(purpose, (op, 0.0, 0.0, 0.0))
        self.messages[purpose] = (
            op if unit is None or purpose not in self.messages else before[0],
            before[1] + number,
            before[2] + number * np.asarray(size),
            before[3] + number * np.asarray(seconds),
        )


def _pick(by_stage: Array, stage: Array) -> Array:
    found: Array = np.take_along_axis(by_stage, stage[None, :], axis=0)[0]
    return found
