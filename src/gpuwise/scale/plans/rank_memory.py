"""Memory on the fullest rank of a plan, for many plans of one mesh at once.

The peak can occur at three moments: when the forward passes of all micro-batches in flight are done, at the end of a backward
pass, when all gradients exist, or during the update.

Sums over units are scaled to match the buffer lifetimes and the allocator that `predict` and `fit` replay: the ratio between the
replayed step on one GPU and the sum of its units applies to every plan with that micro-batch. A plan that divides only samples
therefore needs exactly what `predict` says, and the others approach it the less they divide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gpuwise.scale.plans.costs import Costs
from gpuwise.scale.plans.estimate import Variants
from gpuwise.scale.plans.types import RECOMPUTE, Mesh, RankMemory
from gpuwise.scale.split.pipeline import held, stage_units
from gpuwise.step.types import Array
from gpuwise.workload.transform.parts import parts_of

__all__ = ["Holdings", "holdings"]

_NONE, _SELECTIVE, _FULL = range(len(RECOMPUTE))
_AHEAD = 2.0  # gathered at a time: the unit that runs and the next


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
    """Bytes by stage and plan, shape (stages, plans), at the fullest of the three moments; `passes` marks where that is the
    first of them. `beside` is the temporary memory at the other moments.
    """

    weight: Array
    gradient: Array
    state: Array
    active: Array
    beside: Array
    passes: Array

    @property
    def total(self) -> Array:
        found: Array = self.weight + self.gradient + self.state + self.active
        return found


def holdings(costs: Costs, mesh: Mesh, stages: Array, plans: Variants, schedule: str = "1f1b") -> Holdings:
    """Compute all these plans at once; `stages` are the units of each stage."""
    found = _tensors(costs, mesh, stages, plans, schedule)
    whole = _replayed(costs)
    found = replace(found, active=found.active * whole.active[plans.point])
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
    """The replayed step on one GPU relative to its units, shape (points,): the factor for the units' `active` bytes, and what
    the allocator holds beyond tensors. If the passes are the fullest moment, that is a share of tensors (`slack`): blocks
    of many sizes. If the update is, it is blocks left from the passes that the update cannot use: a share of those
    (`stuck`).
    """

    active: Array
    slack: Array
    stuck: Array


def _replayed(costs: Costs) -> _Replayed:
    whole, own = costs.replay, parts_of(costs.parts.workload)
    none = np.zeros(costs.sizes.points, dtype=np.int64)
    plain = Variants(point=np.arange(len(none)), micro_count=none + 1, zero=none, recompute=none, offload=none.astype(bool))
    units = _tensors(costs, Mesh(), stage_units(own, (len(own.kinds),)), plain, "1f1b")
    passing = whole.tensors - (units.total - units.active)[0]
    beyond, beside = whole.held - whole.tensors, units.beside[0]
    by_passes = units.passes[0] | (beside <= 0)
    return _Replayed(
        active=np.maximum(0.0, passing) / np.maximum(units.active[0], 1.0),
        slack=np.where(by_passes, beyond / whole.tensors, 0.0),
        stuck=np.where(by_passes, 0.0, beyond / np.maximum(beside, 1.0)),
    )


def _tensors(costs: Costs, mesh: Mesh, stages: Array, plans: Variants, schedule: str) -> _Tensors:
    """Sums over the units of each stage."""
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
    passing = fullest(memory.passing[:, point] + again)
    active = flying * (stages @ saved) + passing
    stays = (plans.micro_count > 1) | (mesh.pipeline > 1)
    update = (stages @ memory.parameters)[:, None] * share[0] * memory.updating * np.where(plans.offload, 0.0, 1.0)
    moments = [(np.where(stays, gradient, 0.0), active), (gradient, passing), (gradient, np.broadcast_to(update, active.shape))]
    which = np.argmax([part + rest for part, rest in moments], axis=0)
    now = [np.choose(which, [moment[place] for moment in moments]) for place in (0, 1)]
    return _Tensors(
        weight=weight,
        gradient=now[0],
        state=np.broadcast_to(state, active.shape),
        active=now[1],
        beside=gradient + active + update - sum(now),
        passes=which == 0,
    )


def _saved(whole: Array, selective: Array, handed: Array, blocks: Array, plans: Variants) -> tuple[Array, Array]:
    """Bytes kept of each unit for a micro-batch, and bytes that recomputation recreates while a unit runs backward."""
    inside = blocks[:, None] > 0
    at = [np.asarray(value[:, plans.point]) for value in (whole, selective, handed)]
    kept = [at[0], np.minimum(at[0], np.where(inside, at[1] + at[2], at[0])), np.where(inside, np.minimum(at[0], at[2]), at[0])]
    saved = np.choose(np.broadcast_to(plans.recompute, at[0].shape), kept)
    return saved, at[0] - saved
