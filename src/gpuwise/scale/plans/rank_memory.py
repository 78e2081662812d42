"""Memory on the fullest rank of a plan, for many plans of one mesh at once.

If ranks divide only samples, with or without ZeRO, the rank's own step is replayed, as in `fit`, so `rank_memory` gives the same
result. `needs` replays only those plans whose sums over units come close to the memory of a GPU.

For other meshes, and as a first estimate, units are added up. The peak can occur at three moments: when the forward passes of
all micro-batches in flight are done; at the end of a backward pass, when all gradients exist; or during the update. The sums are
scaled to match the buffer lifetimes and the allocator that `predict` and `fit` replay: the ratio between the replayed step on
one GPU and the sum of its units, in the passes and in the update, applies to every plan with that micro-batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gpuwise.scale.plans.costs import Costs
from gpuwise.scale.plans.estimate import Variants
from gpuwise.scale.plans.types import RECOMPUTE, Mesh, RankMemory
from gpuwise.scale.split.pipeline import held, stage_units
from gpuwise.step.memory.peak import MemorySetting, memory_of, reserved_bytes_of
from gpuwise.step.types import Array
from gpuwise.workload.model.types import Workload
from gpuwise.workload.transform.parts import parts_of

__all__ = ["Holdings", "holdings", "needs", "rank_memory", "unsure"]

_NONE, _SELECTIVE, _FULL = range(len(RECOMPUTE))
_AHEAD = 2.0  # gathered at a time: the unit that runs and the next
_UNSURE = 1.3  # sums over units are off by at most this factor


@dataclass(frozen=True, kw_only=True, eq=False)
class Holdings:
    """Bytes by category on the fullest rank, one row per plan, and its stage."""

    parts: Mapping[str, Array]
    stage: Array

    @property
    def total(self) -> Array:
        found: Array = np.sum(list(self.parts.values()), axis=0)
        return found

    def of(self, row: int) -> RankMemory:
        """Return the memory of one plan."""
        return RankMemory(**{name: float(values[row]) for name, values in self.parts.items()}, stage=int(self.stage[row]))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Tensors:
    """Bytes by stage and plan, shape (stages, plans), at the fullest of the three moments; `passes` marks where that is one of
    the first two. `beside` is the temporary memory at the other moments, `in_passes` is that at the first moment, and
    `in_update` is that at the last.
    """

    weight: Array
    gradient: Array
    state: Array
    active: Array
    beside: Array
    passes: Array
    in_passes: Array
    in_update: Array

    @property
    def total(self) -> Array:
        found: Array = self.weight + self.gradient + self.state + self.active
        return found


def needs(costs: Costs, mesh: Mesh, stages: Array, plans: Variants, schedule: str, room_bytes: float) -> Array:
    """Return the total of each plan. Those that divide only samples are replayed if their sums are close to the room."""
    found = holdings(costs, mesh, stages, plans, schedule).total
    close = (found > room_bytes / unsure(mesh)) & (found < room_bytes * unsure(mesh))
    for row in np.flatnonzero(close).tolist():
        found[row] = _replayed_bytes(costs, mesh, plans.row(row), float(found[row]))
    return found


def unsure(mesh: Mesh) -> float:
    """Return the factor by which a replay may differ from sums over units; 1 if there is nothing better than the sums."""
    return _UNSURE if _divides_samples_only(mesh) else 1.0


def rank_memory(costs: Costs, mesh: Mesh, stages: Array, plan: Variants, schedule: str) -> RankMemory:
    """Return the memory of a single plan: replayed if it divides only samples."""
    if not _divides_samples_only(mesh):
        return holdings(costs, mesh, stages, plan, schedule).of(0)
    if int(plan.recompute[0]) == _SELECTIVE:
        found = holdings(costs, mesh, stages, plan, schedule).of(0)
        return _with_total(found, _replayed_bytes(costs, mesh, plan, found.total_bytes))
    size = costs.batch(int(plan.point[0]))
    memory = memory_of(
        _step(costs, mesh, plan), size, costs.sizes.seq, gpu=costs.gpu, setting=MemorySetting(gpu_count=mesh.ranks)
    )
    return RankMemory(
        weight_bytes=memory.weight_bytes,
        gradient_bytes=memory.gradient_bytes,
        optimizer_bytes=memory.optimizer_bytes,
        activation_bytes=memory.activation_bytes,
        workspace_bytes=memory.workspace_bytes,
        framework_bytes=memory.framework_bytes,
    )


def _divides_samples_only(mesh: Mesh) -> bool:
    return mesh.data == mesh.ranks and mesh.expert == 1


def _step(costs: Costs, mesh: Mesh, plan: Variants) -> Workload:
    """The step of one rank under this plan."""
    stage = int(plan.zero[0])
    return costs.rank_step(
        zero_stage=stage,
        ranks=mesh.data if stage else 1,
        recomputes=int(plan.recompute[0]) == _FULL,
        accumulates=int(plan.micro_count[0]) > 1,
        offload=bool(plan.offload[0]),
    )


def _replayed_bytes(costs: Costs, mesh: Mesh, plan: Variants, by_units: float) -> float:
    """Return the total of a plan from its replay. `fit` does not rewrite steps for selective recomputation, so in that case the
    sum over units is scaled like that of the same plan without recomputation.
    """
    if int(plan.recompute[0]) == _SELECTIVE:
        plain = replace(plan, recompute=np.array([_NONE]))
        stages = stage_units(costs.parts, (len(costs.parts.kinds),))
        sum_ = float(holdings(costs, mesh, stages, plain).total[0])
        return by_units * _replayed_bytes(costs, mesh, plain, sum_) / sum_
    size = costs.batch(int(plan.point[0]))
    reserved = reserved_bytes_of(_step(costs, mesh, plan), size, costs.sizes.seq, gpu=costs.gpu)
    return reserved + costs.around(mesh.ranks).framework_bytes


def _with_total(memory: RankMemory, total_bytes: float) -> RankMemory:
    """Return the same memory with this total, by scaling temporary memory and what the allocator holds for it."""
    passing = memory.activation_bytes + memory.workspace_bytes
    factor = max(0.0, 1.0 + (total_bytes - memory.total_bytes) / max(passing, 1.0))
    return replace(memory, activation_bytes=factor * memory.activation_bytes, workspace_bytes=factor * memory.workspace_bytes)


def holdings(costs: Costs, mesh: Mesh, stages: Array, plans: Variants, schedule: str = "1f1b") -> Holdings:
    """Add up the units of all these plans at once; `stages` are the units of each stage."""
    whole = _replayed(costs)
    found = _tensors(costs, mesh, stages, plans, schedule, whole)
    slack = found.total * whole.slack[plans.point] + found.beside * whole.stuck[plans.point]
    around = costs.around(mesh.ranks)
    stage = np.argmax(found.total, axis=0)

    def of(value: Array) -> Array:
        taken: Array = np.take_along_axis(np.broadcast_to(value, found.total.shape), stage[None], axis=0)[0]
        return taken

    return Holdings(
        parts={
            "weight_bytes": of(found.weight),
            "gradient_bytes": of(found.gradient),
            "optimizer_bytes": of(found.state),
            "activation_bytes": of(found.active),
            "workspace_bytes": of(slack) + around.library_bytes,
            "framework_bytes": np.full(len(plans), around.framework_bytes),
        },
        stage=stage,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Replayed:
    """The replayed step on one GPU relative to its units, shape (points,): the factors for the units' `active` bytes in the
    passes and in the `update`, and the bytes that the allocator holds beyond tensors. If memory peaks in the passes, these are a
    share of the tensors (`slack`), because blocks have many sizes. If it peaks in the update, they are a share (`stuck`) of the
    blocks left from the passes, which the update cannot use.
    """

    active: Array
    update: Array
    slack: Array
    stuck: Array


def _replayed(costs: Costs) -> _Replayed:
    whole, own = costs.replay, parts_of(costs.parts.workload)
    none = np.zeros(costs.sizes.points, dtype=np.int64)
    plain = Variants(point=np.arange(len(none)), micro_count=none + 1, zero=none, recompute=none, offload=none.astype(bool))
    one, nothing = np.ones(len(none)), np.zeros(len(none))
    stages = stage_units(own, (len(own.kinds),))

    def units_of(found: _Replayed) -> _Tensors:
        return _tensors(costs, Mesh(), stages, plain, "1f1b", found)

    sums = units_of(_Replayed(active=one, update=one, slack=nothing, stuck=nothing))
    active, update = (
        brief / np.maximum(sum_[0], 1.0) for brief, sum_ in ((whole.passing, sums.in_passes), (whole.updating, sums.in_update))
    )
    scaled = _Replayed(active=active, update=update, slack=nothing, stuck=nothing)
    units = units_of(scaled)
    beyond, beside = whole.held - whole.tensors, units.beside[0]
    by_passes = units.passes[0] | (beside <= 0)
    return replace(
        scaled,
        slack=np.where(by_passes, beyond / whole.tensors, 0.0),
        stuck=np.where(by_passes, 0.0, beyond / np.maximum(beside, 1.0)),
    )


def _tensors(costs: Costs, mesh: Mesh, stages: Array, plans: Variants, schedule: str, whole: _Replayed) -> _Tensors:
    """Add up the units of each stage, with temporary memory scaled to match the replayed step."""
    memory = costs.memory(mesh.degrees)
    ranks = mesh.data * mesh.sequence
    zero, point = plans.zero, plans.point
    present = stages > 0
    blocks = np.ones(len(memory.weight))
    blocks[[0, -1]] = 0.0

    def fullest(by_unit: Array) -> Array:
        """The largest of a stage's units, shape (stages, plans)."""
        spread = np.broadcast_to(by_unit if by_unit.ndim == 2 else by_unit[:, None], (by_unit.shape[0], len(plans)))
        found: Array = np.where(present[:, :, None], spread[None], 0.0).max(axis=1)
        return found

    share = [np.where(zero >= stage, 1.0 / ranks, 1.0) for stage in (1, 2, 3)]
    sharded = zero == 3
    weight = (stages @ memory.weight)[:, None] * share[2] + np.where(sharded, _AHEAD * fullest(memory.weight), 0.0)
    gradient = (stages @ memory.gradient)[:, None] * share[1] + np.where(zero >= 2, fullest(memory.gradient), 0.0)
    state = (stages @ memory.state)[:, None] * share[0] * np.where(plans.offload, 0.0, 1.0)
    saved, again = _saved(memory.saved, memory.saved_selective, memory.handed, blocks, plans)
    flying = held(mesh.pipeline, plans.micro_count, mesh.chunks, schedule)
    passing = fullest(memory.passing[:, point] + again) * whole.active[point]
    active = flying * (stages @ saved) * whole.active[point] + passing
    stays = (plans.micro_count > 1) | (mesh.pipeline > 1)
    update = (
        (stages @ memory.parameters)[:, None] * share[0] * memory.updating * np.where(plans.offload, 0.0, whole.update[point])
    )
    moments = [(np.where(stays, gradient, 0.0), active), (gradient, passing), (gradient, np.broadcast_to(update, active.shape))]
    which = np.argmax([part + rest for part, rest in moments], axis=0)
    now = [np.choose(which, [moment[place] for moment in moments]) for place in (0, 1)]
    return _Tensors(
        weight=weight,
        gradient=now[0],
        state=np.broadcast_to(state, active.shape),
        active=now[1],
        beside=gradient + active + update - sum(now),
        passes=which < 2,
        in_passes=active,
        in_update=np.broadcast_to(update, active.shape),
    )


def _saved(whole: Array, selective: Array, handed: Array, blocks: Array, plans: Variants) -> tuple[Array, Array]:
    """Bytes kept of each unit for a micro-batch, and bytes that recomputation recreates while a unit runs backward."""
    inside = blocks[:, None] > 0
    at = [np.asarray(value[:, plans.point]) for value in (whole, selective, handed)]
    kept = [at[0], np.minimum(at[0], np.where(inside, at[1] + at[2], at[0])), np.where(inside, np.minimum(at[0], at[2]), at[0])]
    saved = np.choose(np.broadcast_to(plans.recompute, at[0].shape), kept)
    return saved, at[0] - saved
