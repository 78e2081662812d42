"""Memory of plans beside the exact rewrites that `fit` replays: one law, whatever is divided."""

from __future__ import annotations

import numpy as np
import pytest

from gpuwise.hardware.machines import find_host
from gpuwise.scale.cluster.shape import parse_cluster
from gpuwise.scale.plans.costs import Costs
from gpuwise.scale.plans.search import estimate
from gpuwise.scale.plans.types import Mesh, Plan
from gpuwise.scale.plans.unit_times import Sizes
from gpuwise.step.memory.peak import MemorySetting, memory_of
from gpuwise.step.time.stacks import as_run, default_stack
from gpuwise.step.types import Setting
from gpuwise.workload.capture.request import Request
from gpuwise.workload.capture.settings import Settings
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
NEAR = {"plain": 1e-6, "accumulating": 0.04, "ZeRO-1": 0.05, "ZeRO-2": 0.05, "ZeRO-3": 0.08, "recomputing": 0.10}


@pytest.mark.parametrize(("name", "precision", "size"), JOBS)
def test_plans_hold_what_rewritten_steps_hold(name: str, precision: str, size: int) -> None:
    settings = Settings(mode="train", precision=precision, optimizer="adamw")
    workload = zoo.load(name, Request(model=name, settings=settings))
    cluster, _ = parse_cluster(f"{RANKS}xA100 SXM 80GB")
    setting = as_run(Setting(stack=default_stack(), host=find_host("desktop")), workload)
    sizes = Sizes(batches=np.array([float(size)]), seq=float(workload.seq) if workload.seq else None)
    costs = Costs(parts=parts_of(workload), gpu=cluster.gpu, setting=setting, sizes=sizes)
    cases = {
        "plain": (workload, {}),
        "accumulating": (accumulating(workload), {"micro_count": 4}),
        **{f"ZeRO-{stage}": (sharded(workload, stage, RANKS), {"zero_stage": stage}) for stage in (1, 2, 3)},
        "recomputing": (checkpointed(workload, blocks_of(workload)), {"recompute": "full"}),
    }
    for case, (rewritten, how) in cases.items():
        exact = memory_of(rewritten, float(size), gpu=cluster.gpu, setting=MemorySetting(gpu_count=RANKS)).total_bytes
        plan = Plan(mesh=Mesh(data=RANKS), micro_batch=size, **how)
        assert estimate(costs, cluster, plan).memory.total_bytes == pytest.approx(exact, rel=NEAR[case]), case
