"""Searches all valid plans for a model on a cluster, with reasons against the others: the best, and the simplest that is
nearly as good.

There are few meshes; the plans of a mesh (micro-batch, ZeRO stage, recomputation, offload) are rows of arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from gpuwise.scale.cluster.shape import Cluster
from gpuwise.scale.plans.costs import Costs
from gpuwise.scale.plans.estimate import Passage, Variants, passage, stages_of
from gpuwise.scale.plans.rank_memory import holdings, needs, rank_memory, unsure
from gpuwise.scale.plans.rules import Limits, meshes, micro_count
from gpuwise.scale.plans.types import RECOMPUTE, Collective, Estimate, Mesh, Plan, RankMemory
from gpuwise.scale.split.habits import Habits
from gpuwise.scale.split.pipeline import stage_units
from gpuwise.scale.split.share import Degrees
from gpuwise.step.types import Array

__all__ = ["WITHIN", "Found", "Wishes", "estimate", "search", "simplest"]

WITHIN = 1.05  # tolerance relative to the best that a simpler plan is allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The requirements: total samples per step, the memory of a GPU, the pipeline schedule, and what is fixed (`limits`)."""

    global_batch: int
    memory_bytes: float
    limits: Limits = field(default_factory=Limits)
    schedule: str = "1f1b"
    habits: Habits = field(default_factory=Habits)


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """All plans tried, as columns; rows of one mesh are adjacent. `fits` says which ones fit on a GPU."""

    meshes: tuple[Mesh, ...]
    mesh: Array
    point: Array
    micro_count: Array
    zero: Array
    recompute: Array
    offload: Array
    step_s: Array
    memory: Array
    fits: Array
    rejected: Counter[str]
    batch: int
    schedule: str = "1f1b"

    def __len__(self) -> int:
        return len(self.step_s)

    def plan(self, row: int, batches: Array) -> Plan:
        """Return one of the plans."""
        mesh, size, count = self.meshes[int(self.mesh[row])], int(batches[int(self.point[row])]), int(self.micro_count[row])
        return Plan(
            mesh=mesh,
            micro_batch=size,
            micro_count=count,
            short=size * count * mesh.data - self.batch,
            zero_stage=int(self.zero[row]),
            recompute=RECOMPUTE[int(self.recompute[row])],
            schedule=self.schedule,
            offload=bool(self.offload[row]),
        )

    def may_fit(self, room_bytes: float) -> Array:
        """The rows that fit or may fit when they are replayed, fastest first."""
        factor = np.array([unsure(mesh) for mesh in self.meshes])
        rows = np.flatnonzero(self.memory <= room_bytes * factor[self.mesh])
        found: Array = rows[np.argsort(self.step_s[rows], kind="stable")]
        return found

    def order(self) -> Array:
        """The rows that fit, fastest first."""
        rows = np.flatnonzero(self.fits)
        found: Array = rows[np.argsort(self.step_s[rows], kind="stable")]
        return found


def search(costs: Costs, cluster: Cluster, wishes: Wishes, *, executor: Executor | None = None, replays: bool = True) -> Found:
    """Try all meshes, in groups over an executor if one is given. Unless the search `replays` plans that divide only samples,
    their memory is a first estimate.
    """
    rejected: Counter[str] = Counter()
    possible = meshes(costs.parts, cluster, wishes.global_batch, wishes.limits, rejected)
    tasks = _by_degrees(possible)
    work = partial(_tried, costs, cluster, wishes, replays)
    answers = list(executor.map(work, tasks) if executor is not None else map(work, tasks))
    rows = [row for answer in answers for row in answer]
    tried = {mesh for mesh, _, _, _ in rows}
    rejected.update(_why_none(mesh, wishes.limits) for mesh in possible if mesh not in tried)
    if not rows:
        return _nothing(tuple(possible), rejected, wishes.global_batch)
    order = {mesh: place for place, mesh in enumerate(possible)}
    columns = {name: np.concatenate([getattr(plans, name) for _, plans, _, _ in rows]) for name in _COLUMNS}
    step = np.concatenate([seconds for _, _, seconds, _ in rows])
    memory = np.concatenate([total for _, _, _, total in rows])
    mesh = np.concatenate([np.full(len(plans), order[one]) for one, plans, _, _ in rows])
    fits = memory <= wishes.memory_bytes
    if (~fits).any():
        rejected[f"not enough memory; a GPU can safely use only {wishes.memory_bytes / 2**30:.3g} GiB"] += int((~fits).sum())
    return Found(
        meshes=tuple(possible),
        mesh=mesh,
        step_s=step,
        memory=memory,
        fits=fits,
        rejected=rejected,
        batch=wishes.global_batch,
        schedule=wishes.schedule,
        **columns,
    )


_COLUMNS = ("point", "micro_count", "zero", "recompute", "offload")


def _nothing(possible: tuple[Mesh, ...], rejected: Counter[str], batch: int) -> Found:
    none = np.zeros(0, dtype=np.int64)
    columns: dict[str, Any] = dict.fromkeys((*_COLUMNS, "mesh", "step_s", "memory"), none)
    return Found(meshes=possible, fits=none.astype(bool), rejected=rejected, batch=batch, **columns)


def _by_degrees(possible: Iterable[Mesh]) -> list[tuple[Mesh, ...]]:
    """Group meshes that need the same units, so that each process computes its own."""
    groups: dict[Degrees, list[Mesh]] = {}
    for mesh in possible:
        groups.setdefault(mesh.degrees, []).append(mesh)
    return [tuple(group) for group in groups.values()]


def _tried(
    costs: Costs, cluster: Cluster, wishes: Wishes, replays: bool, group: Sequence[Mesh]
) -> list[tuple[Mesh, Variants, Array, Array]]:
    found = []
    for mesh in group:
        plans = _variants(costs, mesh, wishes)
        if len(plans):
            step = passage(costs, cluster, mesh, plans, wishes.habits)
            about = (costs, mesh, step.stages, plans, wishes.schedule)
            memory = needs(*about, wishes.memory_bytes) if replays else holdings(*about).total
            found.append((mesh, plans, step.step_s, memory))
    return found


def _variants(costs: Costs, mesh: Mesh, wishes: Wishes) -> Variants:
    """Return all plans of a mesh, as columns."""
    limits = wishes.limits
    counts = np.array([micro_count(mesh, wishes.global_batch, size) for size in costs.sizes.batches.astype(int).tolist()])
    points = [
        place
        for place, size in enumerate(costs.sizes.batches.astype(int).tolist())
        if counts[place] and limits.allows("micro_batch", size) and _schedules(mesh, int(counts[place]))
    ]
    zeros = [stage for stage in _stages(mesh) if limits.allows("zero_stage", stage)]
    again = [
        place for place, name in enumerate(RECOMPUTE) if limits.allows("recompute", name) and (place == 0 or costs.parts.kinds)
    ]
    offloads = [value for value in (False, True) if limits.allows("offload", value)]
    rows = [row for row in product(points, zeros, again, offloads) if not row[3] or _offloads(mesh, row[1])]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return Variants(
        point=columns[:, 0],
        micro_count=counts[columns[:, 0]],
        zero=columns[:, 1],
        recompute=columns[:, 2],
        offload=columns[:, 3].astype(bool),
    )


def _why_none(mesh: Mesh, limits: Limits) -> str:
    """Return why a mesh has no plan at all."""
    stage = limits.fixed.get("zero_stage")
    if stage is not None and stage not in _stages(mesh):
        alone = mesh.data * mesh.sequence == 1
        why = "there is only one data rank" if alone else "cannot be combined with tensor, sequence or pipeline ranks"
        return f"ZeRO-{stage}: {why}"
    if limits.fixed.get("offload"):
        return "offload: works only with pure data parallelism and ZeRO across several ranks"
    return "micro-batches: no size gives each rank enough micro-batches for the stages"


def _schedules(mesh: Mesh, micro_count: int) -> bool:
    """Interleaved stages process micro-batches in rounds of as many as there are stages."""
    return mesh.chunks == 1 or micro_count % mesh.pipeline == 0


def _offloads(mesh: Mesh, zero: int) -> bool:
    """Return whether software can keep the optimizer on the host here: only samples are divided, and each rank has its own
    part of it.
    """
    return mesh.ranks == mesh.data and mesh.expert == 1 and (mesh.data == 1 or zero >= 1)


def _stages(mesh: Mesh) -> tuple[int, ...]:
    """Return the ZeRO stages possible for a mesh: sharded gradients (2) require ranks that divide only samples and experts."""
    if mesh.data * mesh.sequence == 1:
        return (0,)
    return (0, 1, 3) if mesh.pipeline * mesh.tensor * mesh.sequence > 1 else (0, 1, 2, 3)


def simplest(found: Found, batches: Array) -> int | None:
    """Return the least complex row within 5% of the best, or the fastest of several equally simple ones."""
    order = found.order()
    if not len(order):
        return None
    near = [row for row in order.tolist() if found.step_s[row] <= WITHIN * found.step_s[order[0]]]
    return int(min(near, key=lambda row: (found.plan(row, batches).complexity, found.step_s[row])))


# ---------------------------------------------------------------- one plan in full


def estimate(costs: Costs, cluster: Cluster, plan: Plan, habits: Habits | None = None) -> Estimate:
    """Return everything that is known about one plan."""
    place = int(np.flatnonzero(costs.sizes.batches == plan.micro_batch)[0])
    plans = Variants(
        point=np.array([place]),
        micro_count=np.array([plan.micro_count]),
        zero=np.array([plan.zero_stage]),
        recompute=np.array([RECOMPUTE.index(plan.recompute)]),
        offload=np.array([plan.offload]),
    )
    sizes = stages_of(costs, plan.mesh, even=(habits or Habits()).even_stages)
    step = passage(costs, cluster, plan.mesh, plans, habits or Habits())
    stages = stage_units(costs.parts, sizes, plan.mesh.chunks)
    held = rank_memory(costs, plan.mesh, stages, plans, plan.schedule)
    return _full(costs, plan, step, held, sizes)


def _full(costs: Costs, plan: Plan, step: Passage, held: RankMemory, sizes: tuple[int, ...]) -> Estimate:
    times = costs.times(Degrees())
    place = int(np.flatnonzero(costs.sizes.batches == plan.micro_batch)[0])
    flops = float(costs.counts @ times.flops[:, place]) / plan.micro_batch * plan.samples
    return Estimate(
        plan=plan,
        step_s=float(step.step_s[0]),
        compute_s=float(step.compute_s[0]),
        recompute_s=float(step.recompute_s[0]),
        update_s=float(step.update_s[0]),
        exposed_comm_s=float(step.exposed_s[0]),
        hidden_comm_s=float(step.hidden_s[0]),
        bubble_s=float(step.bubble_s[0]),
        wait_s=float(step.wait_s[0]),
        flops=flops,
        memory=held,
        collectives=tuple(
            Collective(
                purpose=purpose,
                op=op,
                count=float(np.ravel(count)[0]),
                total_bytes=float(np.ravel(size)[0]),
                seconds=float(np.ravel(seconds)[0]),
            )
            for purpose, (op, count, size, seconds) in step.messages.items()
            if float(np.ravel(count)[0]) > 0
        ),
        stages=sizes,
    )
