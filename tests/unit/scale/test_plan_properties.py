"""Whatever the plan: no step beats the peak of its GPUs, more samples never take less, memory is never negative."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwise.hardware.machines import find_host
from gpuwise.scale.cluster.parse import parse_cluster
from gpuwise.scale.cluster.shape import Cluster
from gpuwise.scale.plans.costs import Costs
from gpuwise.scale.plans.search import estimate
from gpuwise.scale.plans.types import RECOMPUTE, Estimate, Mesh, Plan
from gpuwise.scale.plans.unit_times import Sizes
from gpuwise.step.time.setting import as_run, default_stack
from gpuwise.step.types import Setting
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.types import Settings
from gpuwise.workload.store import zoo
from gpuwise.workload.transform.parts import parts_of

SIZES = (1, 2, 4, 8)
MODELS = ("gpt2", "mixtral-8x7b", "t5-small")


@cache
def cluster_of() -> Cluster:
    return parse_cluster("4x4xA100 SXM 80GB", network="100Gbit")[0]


@cache
def costs_of(name: str) -> Costs:
    workload = zoo.load(name, Request(model=name, settings=Settings(mode="train", precision="bf16", optimizer="adamw")))
    setting = as_run(Setting(stack=default_stack(), host=find_host("server")), workload)
    sizes = Sizes(batches=np.array(SIZES, dtype=float), seq=float(workload.seq or 1))
    return Costs(parts=parts_of(workload), gpu=cluster_of().gpu, setting=setting, sizes=sizes)


meshes = st.builds(
    lambda tensor, pipeline: Mesh(tensor=tensor, pipeline=pipeline, data=16 // tensor // pipeline, tokens=True),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2, 4]),
)
plans = st.builds(
    Plan,
    mesh=meshes,
    micro_batch=st.sampled_from(SIZES),
    micro_count=st.sampled_from([1, 2, 8]),
    zero_stage=st.sampled_from([0, 1, 3]),
    recompute=st.sampled_from(RECOMPUTE),
)


def asked(name: str, plan: Plan) -> Estimate:
    return estimate(costs_of(name), cluster_of(), plan)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(MODELS), plans)
def test_no_step_beats_the_peak_of_its_gpus(name: str, plan: Plan) -> None:
    found = asked(name, plan)
    peak = cluster_of().gpu.best_peak("bf16") or 0.0
    assert found.step_s > found.flops / (peak * cluster_of().gpu_count) * 0.99
    assert min(found.compute_s, found.recompute_s, found.update_s, found.exposed_comm_s, found.bubble_s) >= 0.0
    assert found.memory.total_bytes > found.memory.weight_bytes > 0.0


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(MODELS), plans)
def test_more_micro_batches_take_longer_and_no_more_than_in_proportion(name: str, plan: Plan) -> None:
    few, many = (asked(name, Plan(mesh=plan.mesh, micro_batch=plan.micro_batch, micro_count=count)) for count in (2, 4))
    assert few.step_s < many.step_s <= 2.0 * few.step_s * (1 + 1e-9)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(MODELS), plans)
def test_a_larger_micro_batch_needs_more_memory(name: str, plan: Plan) -> None:
    held = [
        asked(name, Plan(mesh=plan.mesh, micro_batch=size, micro_count=2, recompute=plan.recompute)).memory.activation_bytes
        for size in SIZES
    ]
    assert held[-1] >= held[0] * (1 - 1e-6)
    # Where the update is the peak, its temporaries count, and they are placed differently beside other activations.
    assert all(more >= 0.85 * less for less, more in pairwise(held))


@pytest.mark.parametrize("name", MODELS)
def test_weights_of_all_ranks_hold_the_model(name: str) -> None:
    costs = costs_of(name)
    whole = asked(name, Plan(mesh=Mesh(data=16), micro_batch=1)).memory.weight_bytes
    for tensor in (2, 4):
        part = asked(name, Plan(mesh=Mesh(data=16 // tensor, tensor=tensor), micro_batch=1)).memory.weight_bytes
        assert whole / tensor <= part * (1 + 1e-9) < whole / tensor * 1.1
    assert costs.memory(Mesh().degrees).total_parameters == pytest.approx(costs.parts.workload.parameters, rel=1e-3)
