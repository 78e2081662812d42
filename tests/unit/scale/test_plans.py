"""The physics that plans keep to: shares sum to the whole, the all-ones plan is one GPU, more of anything is never slower."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpuwise.evidence.language import LanguageModel, language_parts
from gpuwise.hardware.machines import find_host
from gpuwise.scale.cluster.collectives import collective_s
from gpuwise.scale.cluster.parse import parse_cluster
from gpuwise.scale.cluster.shape import Cluster
from gpuwise.scale.plans.costs import Costs
from gpuwise.scale.plans.recipes import recipes
from gpuwise.scale.plans.rules import Limits, whynot
from gpuwise.scale.plans.search import Wishes, estimate, search, simplest
from gpuwise.scale.plans.types import Mesh, Plan, group
from gpuwise.scale.plans.unit_times import Sizes
from gpuwise.scale.split.habits import Habits
from gpuwise.scale.split.pipeline import blocks_of_stages, held
from gpuwise.scale.split.share import Degrees
from gpuwise.step.memory.lifetimes import peak_bytes
from gpuwise.step.time.setting import as_run, default_stack
from gpuwise.step.time.simulate import simulate
from gpuwise.step.types import Setting
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.types import Settings, Workload
from gpuwise.workload.store import zoo
from gpuwise.workload.transform.parts import parts_of

SIZES = (1, 2, 4, 8)


def load(name: str, precision: str = "bf16") -> Workload:
    return zoo.load(name, Request(model=name, settings=Settings(mode="train", precision=precision, optimizer="adamw")))


def costs_of(name: str, cluster: Cluster, precision: str = "bf16") -> Costs:
    workload = load(name, precision)
    setting = as_run(Setting(stack=default_stack(), host=find_host("server")), workload)
    sizes = Sizes(batches=np.array(SIZES, dtype=float), seq=float(workload.seq) if workload.seq else None)
    return Costs(parts=parts_of(workload), gpu=cluster.gpu, setting=setting, sizes=sizes)


@pytest.mark.parametrize(
    ("name", "precision"), [("gpt2", "bf16"), ("resnet50", "amp"), ("t5-small", "amp"), ("word_lstm", "fp32")]
)
def test_the_all_ones_plan_equals_one_gpu(name: str, precision: str) -> None:
    cluster, _ = parse_cluster("1xA100 SXM 80GB")
    costs = costs_of(name, cluster, precision)
    workload = costs.parts.workload
    for size in SIZES:
        plain = simulate(workload, [cluster.gpu], costs.setting, batch=np.array([float(size)]))
        found = estimate(costs, cluster, Plan(mesh=Mesh(), micro_batch=size))
        assert found.step_s == pytest.approx(float(plain.seconds[0, 0]), rel=1e-6)
        assert found.exposed_comm_s == found.bubble_s == 0.0
        assert found.flops == pytest.approx(float(plain.flops[0, 0]), rel=1e-9)


@pytest.mark.parametrize("name", ["gpt2", "llama-2-7b", "resnet50", "t5-base", "mixtral-8x7b"])
def test_memory_of_the_all_ones_plan_is_near_the_peak_that_fit_sees(name: str) -> None:
    cluster, _ = parse_cluster("1xA100 SXM 80GB")
    costs = costs_of(name, cluster, "amp")
    for size in (1, 8):
        memory = estimate(costs, cluster, Plan(mesh=Mesh(), micro_batch=size)).memory
        tensors = memory.weight_bytes + memory.gradient_bytes + memory.optimizer_bytes + memory.activation_bytes
        assert tensors == pytest.approx(peak_bytes(costs.parts.workload, size, costs.parts.workload.seq), rel=0.12)


def test_shards_of_zero_sum_to_the_whole() -> None:
    cluster, _ = parse_cluster("8xA100 SXM 80GB")
    costs = costs_of("llama-2-7b", cluster)
    plain, *sharded = (
        estimate(costs, cluster, Plan(mesh=Mesh(data=8), micro_batch=1, micro_count=2, zero_stage=stage)).memory
        for stage in range(4)
    )
    assert all(memory.optimizer_bytes * 8 == pytest.approx(plain.optimizer_bytes) for memory in sharded)
    assert sharded[1].gradient_bytes * 8 == pytest.approx(plain.gradient_bytes)
    assert sharded[2].weight_bytes * 8 == pytest.approx(plain.weight_bytes)
    assert plain.total_bytes > sharded[0].total_bytes > sharded[1].total_bytes > sharded[2].total_bytes


def test_recomputing_more_saves_memory_and_costs_time() -> None:
    cluster, _ = parse_cluster("8xA100 SXM 80GB")
    costs = costs_of("llama-2-7b", cluster)
    none, some, full = (
        estimate(costs, cluster, Plan(mesh=Mesh(data=8), micro_batch=4, recompute=kind)) for kind in ("none", "selective", "full")
    )
    assert none.memory.activation_bytes > some.memory.activation_bytes > full.memory.activation_bytes
    assert none.step_s < some.step_s < full.step_s
    assert full.recompute_s == pytest.approx(full.compute_s / 3, rel=0.25)  # one more forward pass of three


def test_more_micro_batches_make_the_bubble_smaller() -> None:
    cluster, _ = parse_cluster("8xA100 SXM 80GB")
    costs = costs_of("llama-2-7b", cluster)
    shares = []
    for count in (4, 8, 32):
        found = estimate(costs, cluster, Plan(mesh=Mesh(pipeline=4, data=2), micro_batch=1, micro_count=count))
        shares.append(found.bubble_s / found.step_s)
    assert shares[0] > shares[1] > shares[2]
    assert shares[1] == pytest.approx(3 / (8 + 3), abs=0.08)  # (p - 1) / (m + p - 1) where stages are alike


def test_interleaving_shortens_the_bubble() -> None:
    cluster, _ = parse_cluster("4xA100 SXM 80GB")
    costs = costs_of("llama-2-7b", cluster)
    plain, woven = (
        estimate(costs, cluster, Plan(mesh=Mesh(pipeline=4, chunks=chunks), micro_batch=2, micro_count=8)) for chunks in (1, 4)
    )
    assert woven.bubble_s == pytest.approx(plain.bubble_s / 4, rel=0.1)


def test_gpipe_holds_every_micro_batch_and_1f1b_as_many_as_stages() -> None:
    assert held(4, np.array([16]), 1, "1f1b")[:, 0].tolist() == [4, 3, 2, 1]
    assert held(4, np.array([16]), 1, "gpipe")[:, 0].tolist() == [16] * 4
    assert held(4, np.array([2]), 1, "1f1b")[:, 0].tolist() == [2, 2, 2, 1]


def test_tokens_that_leave_a_node_go_no_faster_than_its_network() -> None:
    cluster, _ = parse_cluster("2x8xH100 SXM")
    size = 1e9
    seconds = float(collective_s("all_to_all", size, cluster, 8, 2))
    assert seconds > size / 2 / (cluster.network_bytes_per_s / 8)  # half of what each GPU has goes to the other node
    assert seconds > float(collective_s("all_to_all", size, cluster, 8, 1))


@pytest.mark.parametrize("network", ["10Gbit", "25Gbit", "100Gbit"])
def test_a_faster_network_is_never_slower(network: str) -> None:
    slow, _ = parse_cluster("2x2xRTX 3090", network=network)
    fast, _ = parse_cluster("2x2xRTX 3090", network="400Gbit")
    costs = costs_of("gpt2", slow, "amp")
    for mesh in (Mesh(data=4), Mesh(data=2, tensor=2, tokens=True), Mesh(data=2, pipeline=2)):
        for zero in (0, 3):
            plan = Plan(mesh=mesh, micro_batch=4, micro_count=4, zero_stage=zero)
            assert estimate(costs, fast, plan).step_s <= estimate(costs, slow, plan).step_s * (1 + 1e-9)


def test_the_parts_of_a_step_sum_to_it() -> None:
    cluster, _ = parse_cluster("2x8xA100 SXM 80GB")
    costs = costs_of("gpt2", cluster)
    for mesh, zero in ((Mesh(data=16), 0), (Mesh(data=16), 3), (Mesh(data=2, tensor=4, pipeline=2, tokens=True), 1)):
        found = estimate(costs, cluster, Plan(mesh=mesh, micro_batch=2, micro_count=4, zero_stage=zero, recompute="full"))
        parts = (found.compute_s, found.recompute_s, found.update_s, found.exposed_comm_s, found.bubble_s, found.wait_s)
        assert sum(parts) == pytest.approx(found.step_s, rel=1e-6)


def test_the_best_plan_is_the_fastest_that_fits_and_the_simplest_is_near_it() -> None:
    cluster, _ = parse_cluster("8xA100 SXM 80GB")
    costs = costs_of("llama-2-7b", cluster)
    found = search(costs, cluster, Wishes(global_batch=64, memory_bytes=cluster.gpu.usable_memory_bytes))
    order = found.order()
    assert found.fits[order].all()
    assert found.step_s[order[0]] == found.step_s[found.fits].min()
    row = simplest(found, costs.sizes.batches)
    assert row is not None
    assert found.step_s[row] <= 1.05 * found.step_s[order[0]]
    assert found.plan(row, costs.sizes.batches).complexity <= found.plan(int(order[0]), costs.sizes.batches).complexity


@pytest.mark.parametrize(("name", "count"), [("mixtral-8x7b", 8), ("vit_base_patch16_224", 4), ("resnet50", 4), ("gpt2", 6)])
def test_every_plan_has_something_to_write(name: str, count: int) -> None:
    cluster, _ = parse_cluster(f"{count}xA100 SXM 80GB")
    costs = costs_of(name, cluster, "amp")
    found = search(costs, cluster, Wishes(global_batch=24 * count, memory_bytes=1e15))
    plans = {found.plan(row, costs.sizes.batches) for row in range(len(found))}
    assert plans
    assert not [plan for plan in plans if not recipes(plan, cluster, costs.parts)]


def test_what_the_user_fixes_is_kept() -> None:
    cluster, _ = parse_cluster("8xA100 SXM 80GB")
    costs = costs_of("gpt2", cluster)
    limits = Limits(fixed={"tensor": 2, "zero_stage": 1, "recompute": "full"})
    found = search(costs, cluster, Wishes(global_batch=16, memory_bytes=8e10, limits=limits))
    plans = [found.plan(row, costs.sizes.batches) for row in range(len(found))]
    assert plans
    assert all(plan.mesh.tensor == 2 and plan.zero_stage == 1 and plan.recompute == "full" for plan in plans)


@pytest.mark.parametrize(
    ("name", "axis", "degree", "reason"),
    [
        ("llama-2-7b", "tensor", 3, "cannot be divided evenly by 3"),
        ("llama-2-70b", "tensor", 16, "8 key-value heads"),
        ("llama-2-7b", "pipeline", 33, "32 blocks are too few"),
        ("resnet50", "tensor", 2, "convolutions"),
        ("word_lstm", "pipeline", 2, "no repeated blocks"),
        ("resnet50", "sequence", 2, "no attention over a sequence"),
        ("gpt2", "expert", 2, "no experts"),
        ("mixtral-8x7b", "expert", 3, "8 experts cannot be divided"),
    ],
)
def test_what_cannot_be_divided_says_why(name: str, axis: str, degree: int, reason: str) -> None:
    cluster, _ = parse_cluster("8xA100 SXM 80GB")
    assert reason in whynot(parts_of(load(name, "amp")), cluster, axis, degree)
    assert whynot(parts_of(load(name, "amp")), cluster, axis, 1) == ""


def test_stages_are_as_even_as_can_be() -> None:
    assert blocks_of_stages([1.0] * 80, 8, 0.1, 0.6) == (10,) * 8
    sizes = blocks_of_stages([1.0] * 24, 4, 0.1, 3.0)
    assert sum(sizes) == 24
    assert sizes[-1] < max(sizes)


def test_groups_fill_nodes_first() -> None:
    assert group(1, 8, 8) == (8, 1)
    assert group(1, 16, 8) == (8, 2)
    assert group(8, 16, 8) == (1, 16)
    assert group(2, 8, 8) == (4, 2)
    assert group(1, 3, 2) == (1, 3)


@pytest.mark.parametrize(
    ("model", "billions"),
    [
        (LanguageModel(hidden=8192, heads=64, kv_heads=8, inner=28672, layers=80, vocabulary=128256, gated=True), 70.55),
        (LanguageModel(hidden=16384, heads=128, kv_heads=8, inner=53248, layers=126, vocabulary=128256, gated=True), 405.85),
        (
            LanguageModel(
                hidden=2048, heads=32, kv_heads=4, head_dim=128, inner=768, layers=48, vocabulary=151936, experts=128, chosen=8
            ),
            30.53,
        ),
        (LanguageModel(hidden=2048, heads=16, layers=24, vocabulary=51200, positions=1024), 1.3156),
    ],
)
def test_models_from_sizes_have_the_parameters_they_are_known_for(model: LanguageModel, billions: float) -> None:
    cluster, _ = parse_cluster("1xA100 SXM 80GB")
    for compiled in (False, True):
        parts = language_parts(model, compiled=compiled)
        setting = Setting(stack=default_stack(), host=find_host("server"))
        costs = Costs(parts=parts, gpu=cluster.gpu, setting=setting, sizes=Sizes(batches=np.array([1.0]), seq=2048.0))
        assert float(costs.counts @ costs.memory(Degrees()).parameters) / 1e9 == pytest.approx(billions, rel=1e-3)


def test_a_model_from_sizes_takes_as_long_as_the_captured_one() -> None:
    cluster, _ = parse_cluster("1xA100 SXM 80GB")
    captured = costs_of("llama-3-8b", cluster)
    sizes = LanguageModel(hidden=4096, heads=32, kv_heads=8, inner=14336, layers=32, vocabulary=128256, gated=True)
    built = replace(captured, parts=language_parts(sizes), _times={}, _memory={}, _update=[], _sums={})
    plan = Plan(mesh=Mesh(), micro_batch=2)
    one, other = (estimate(costs, cluster, plan, Habits()) for costs in (captured, built))
    assert one.compute_s == pytest.approx(other.compute_s, rel=1e-3)
    assert one.update_s == pytest.approx(other.update_s, rel=0.02)
