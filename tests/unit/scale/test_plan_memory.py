"""Memory of plans beside the exact rewrites that `fit` replays: one law, whatever is divided."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from gpuwise.hardware.machines import find_host
from gpuwise.hardware.types import Host
from gpuwise.scale.cluster.parse import parse_cluster
from gpuwise.scale.cluster.shape import Cluster
from gpuwise.scale.plans.costs import Costs
from gpuwise.scale.plans.estimate import Variants
from gpuwise.scale.plans.rank_memory import holdings, rank_memory, unsure
from gpuwise.scale.plans.search import estimate
from gpuwise.scale.plans.types import Mesh, Plan
from gpuwise.scale.plans.unit_times import Sizes
from gpuwise.scale.split.pipeline import stage_units
from gpuwise.scale.split.share import Degrees
from gpuwise.step.memory.peak import MemorySetting, memory_of
from gpuwise.step.time.setting import as_run, default_stack
from gpuwise.step.types import Setting
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.types import Settings
from gpuwise.workload.store import zoo
from gpuwise.workload.transform.checkpoint import blocks_of, checkpointed
from gpuwise.workload.transform.parts import parts_of
from gpuwise.workload.transform.share import accumulating, sharded

RANKS = 8
# the update is the fullest moment of the first three, the passes are that of the others
JOBS = [
    ("gpt2-xl", "amp", 1),
    ("llama-2-7b", "bf16", 1),
    ("bert-large-uncased", "amp", 2),
    ("bert-large-uncased", "amp", 16),
    ("resnet50", "amp", 64),
    ("gpt2", "amp", 8),
]


def costs_of(name: str, precision: str, size: int, cluster: Cluster, host: Host | None = None) -> Costs:
    settings = Settings(mode="train", precision=precision, optimizer="adamw")
    workload = zoo.load(name, Request(model=name, settings=settings))
    setting = as_run(Setting(stack=default_stack(), host=host or find_host("desktop")), workload)
    sizes = Sizes(batches=np.array([float(size)]), seq=float(workload.seq) if workload.seq else None)
    return Costs(parts=parts_of(workload), gpu=cluster.gpu, setting=setting, sizes=sizes)


@pytest.mark.parametrize(("name", "precision", "size"), JOBS)
def test_plans_hold_what_rewritten_steps_hold(name: str, precision: str, size: int) -> None:
    cluster, _ = parse_cluster(f"{RANKS}xA100 SXM 80GB")
    costs = costs_of(name, precision, size, cluster)
    workload = costs.parts.workload
    cases = {
        "plain": (workload, {}),
        "accumulating": (accumulating(workload), {"micro_count": 4}),
        **{f"ZeRO-{stage}": (sharded(workload, stage, RANKS), {"zero_stage": stage}) for stage in (1, 2, 3)},
        "recomputing": (checkpointed(workload, blocks_of(workload)), {"recompute": "full"}),
    }
    for case, (rewritten, how) in cases.items():
        exact = memory_of(rewritten, float(size), gpu=cluster.gpu, setting=MemorySetting(gpu_count=RANKS)).total_bytes
        plan = Plan(mesh=Mesh(data=RANKS), micro_batch=size, **how)
        assert estimate(costs, cluster, plan).memory.total_bytes == pytest.approx(exact, rel=1e-6), case


def test_zero_3_gathers_the_unit_that_runs_and_the_next() -> None:
    """In sums over units; a replayed step holds gathered weights as temporary tensors."""
    for ranks in (2, 8):
        cluster, _ = parse_cluster(f"{ranks}xA100 SXM 80GB")
        costs = costs_of("gpt2", "amp", 4, cluster)
        weights = costs.memory(Degrees()).weight
        one, none = np.array([1]), np.array([0])
        plan = Variants(point=none, micro_count=one, zero=3 * one, recompute=none, offload=none.astype(bool))
        stages = stage_units(costs.parts, (len(costs.parts.kinds),))
        found = holdings(costs, Mesh(data=ranks), stages, plan).of(0)
        assert found.weight_bytes == pytest.approx(costs.counts @ weights / ranks + 2 * weights.max())


def test_an_offloaded_update_reads_gradients_and_rewrites_weights_and_state_in_the_hosts_memory() -> None:
    """With AdamW in fp32 a parameter has 4 bytes of gradient that are read, and 12 of weight and state read and written."""
    cluster, _ = parse_cluster("A100 SXM 80GB")
    plan = Plan(mesh=Mesh(), micro_batch=4, offload=True)
    taken = {}
    for rate in (1e9, 2e9):
        host = replace(find_host("desktop"), memory_bytes_per_s=rate)
        costs = costs_of("gpt2", "amp", 4, cluster, host)
        taken[rate] = estimate(costs, cluster, plan).step_s
    moved = (taken[1e9] - taken[2e9]) / (1 / 1e9 - 1 / 2e9)
    assert moved == pytest.approx((4 + 2 * 12) * costs.parts.workload.parameters, rel=0.02)


@pytest.mark.parametrize(("name", "precision", "size"), JOBS)
@pytest.mark.parametrize("ranks", [2, RANKS])
def test_sums_over_units_are_near_enough_to_decide_what_to_replay(name: str, precision: str, size: int, ranks: int) -> None:
    cluster, _ = parse_cluster(f"{ranks}xA100 SXM 80GB")
    costs = costs_of(name, precision, size, cluster)
    stages, none, mesh = stage_units(costs.parts, (len(costs.parts.kinds),)), np.array([0]), Mesh(data=ranks)
    for zero, again, count in product((0, 1, 2, 3), (0, 2), (1, 4)):
        plan = Variants(point=none, micro_count=none + count, zero=none + zero, recompute=none + again, offload=none.astype(bool))
        exact = rank_memory(costs, mesh, stages, plan, "1f1b").total_bytes
        assert 1 / unsure(mesh) < holdings(costs, mesh, stages, plan).total[0] / exact < unsure(mesh), (zero, again, count)
