"""What lanes, host and software cost: by the meaning of each figure, as the docs state it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_host, hosts, loaders
from gpuwise.kernels.registry import KINDS
from gpuwise.kernels.times import load_constants
from gpuwise.kernels.types import Constants
from gpuwise.step.time.setting import CPU_LAUNCH, as_run, default_stack, images_per_s, stacks, workers_for
from gpuwise.step.time.simulate import ops_of, simulate
from gpuwise.step.types import Setting, Stack, StepTimes
from gpuwise.workload.capture.request import Request
from gpuwise.workload.compile.fuse import fused
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.types import PHASES, Settings, Workload
from gpuwise.workload.store import zoo

CARD = load_catalog().find("RTX 3090").gpu


@cache
def load(model: str, precision: str = "amp", mode: str = "train") -> Workload:
    return zoo.load(model, Request(model=model, settings=Settings(mode=mode, precision=precision, optimizer="momentum")))


def step(model: str = "resnet50", batch: float = 256.0, **changes: Any) -> StepTimes:
    setting = replace(Setting(stack=default_stack(), host=find_host("desktop")), **changes)
    return simulate(load(model), [CARD], setting, batch=np.array([batch]))


# ---------------------------------------------------------------- lanes


def beside(share: float) -> float:
    """How many times its GPU's time a busy step takes while a loader needs this share of that time."""
    alone = float(step().lanes["gpu"][0, 0])
    found = step(loader_samples_per_s=256.0 / (share * alone))
    return float(found.seconds[0, 0]) / alone


def test_two_lanes_of_one_length_make_a_step_an_eighth_longer_than_either() -> None:
    """docs/concepts/step-time.md: 12 % for two equal lanes, hardly anything for one of half the length."""
    assert beside(1.0) == pytest.approx(1.12, abs=0.01)
    assert beside(0.5) == pytest.approx(1.0, abs=0.005)
    assert beside(2.0) == pytest.approx(2.0, abs=0.01)


@pytest.mark.parametrize("rate", [1e9, 13e9, 64e9])
def test_a_copy_of_inputs_reaches_four_fifths_of_its_link(rate: float) -> None:
    """docs/concepts/step-time.md; 32 images of 3 x 224 x 224 in fp32, and a label of 8 bytes each."""
    size = 32 * (3 * 224 * 224 * 4 + 8)
    assert float(step(batch=32.0, link_bytes_per_s=rate).lanes["copy"][0, 0]) == pytest.approx(size / (0.8 * rate), rel=0.01)


# ---------------------------------------------------------------- the host


def test_the_host_follows_its_cpu_and_how_the_software_runs() -> None:
    usual, desktop = default_stack(), find_host("desktop")
    whole = step().lanes["host"]
    assert step(stack=replace(usual, host_factor=0.25)).lanes["host"] == pytest.approx(0.25 * whole)
    assert step(host=replace(desktop, launch_s=3 * desktop.launch_s)).lanes["host"] == pytest.approx(3 * whole)


@pytest.mark.parametrize("model", ["resnet50", "bert-base-uncased"])
@pytest.mark.parametrize(
    ("name", "phases", "holds"),
    [
        ("attention", ("forward",), lambda kind: kind == "attention"),
        ("cast", ("forward", "backward"), lambda kind: kind == "cast"),
        ("light", ("forward",), lambda kind: kind not in ("attention", "cast") and not KINDS[kind].is_layer),
        ("backward", ("backward",), lambda kind: kind not in ("conv", "cast")),
        ("conv_backward", ("backward",), lambda kind: kind == "conv"),
        ("optimizer", ("optimizer",), lambda kind: True),
    ],
)
def test_every_call_costs_the_host_what_its_constant_says(
    model: str, name: str, phases: tuple[str, ...], holds: Callable[[str], bool]
) -> None:
    workload, k, host = load(model), load_constants(), find_host("desktop")
    count = sum(PHASES[call.phase] in phases and holds(workload.ops[call.op].kind) for call in workload.calls)
    assert after_before(workload, k, name, default_stack()) == pytest.approx(count * host.launch_s)
    assert count > 0 or (model, name) in {("bert-base-uncased", "conv_backward"), ("resnet50", "attention")}


def after_before(workload: Workload, k: Constants, name: str, stack: Stack) -> float:
    """How much longer the host takes if one constant is larger by one."""
    setting = Setting(stack=stack, host=find_host("desktop"))
    before, after = (
        simulate(workload, [CARD], setting, constants={**k, f"host.{name}": k[f"host.{name}"] + more}).lanes["host"]
        for more in (0.0, 1.0)
    )
    return float((after - before)[0, 0])


@pytest.mark.parametrize(("model", "name"), [("bert-base-uncased", "attention"), ("resnet50", "conv_backward")])
def test_a_compiled_step_needs_neither_python_nor_autograd_around_an_op(model: str, name: str) -> None:
    assert after_before(load(model), load_constants(), name, default_stack(compiled=True)) == 0.0


def test_a_cpu_launches_its_own_ops_faster_than_those_of_a_gpu() -> None:
    setting = Setting(stack=default_stack(), host=find_host("desktop"))
    cpu = load_catalog().find("Ryzen 7 5800X").gpu
    own, of_card = simulate(load("resnet50"), [cpu, CARD], setting).lanes["host"][0]
    assert own == pytest.approx(CPU_LAUNCH * of_card)


# ---------------------------------------------------------------- what limits a step


def test_wide_convolutions_in_fp32_are_bound_by_compute_and_narrow_ones_in_16_bit_by_memory() -> None:
    old = load_catalog().find("GTX 1070").gpu
    setting = Setting(stack=default_stack(), host=find_host("desktop"))
    wide = simulate(load("vgg16", "fp32"), [old], setting, batch=np.array([32.0])).shares
    narrow = simulate(load("mobilenet_v2"), [CARD], setting, batch=np.array([256.0])).shares
    assert wide["compute"][0, 0] > 2 * wide["memory"][0, 0]
    assert narrow["memory"][0, 0] > 2 * narrow["compute"][0, 0]


@pytest.mark.parametrize(("version", "convolutions"), [((1, 6), False), ((1, 7), True), ((1, 11), True), ((2, 4), True)])
def test_convolutions_in_fp32_run_as_tf32_since_torch_1_7(version: tuple[int, int], convolutions: bool) -> None:
    setting = Setting(stack=replace(default_stack(), version=version), host=find_host("desktop"))
    found = as_run(setting, load("resnet50", "fp32"))
    assert (found.tf32, found.tf32_convolutions) == (False, convolutions)


def test_a_product_is_aligned_only_if_both_inner_sizes_are() -> None:
    """GPT-2 has 50257 words: its logits have an odd width, and their gradient sums over it."""
    (columns,) = (group.columns for group in ops_of(load("gpt2")).groups if group.kind == "matmul")
    n, k, aligned = (columns[name][:, 0] for name in ("n", "k", "aligned"))
    assert {50257.0} <= set(n)
    assert {50257.0} <= set(k)
    assert not aligned[(n == 50257) | (k == 50257)].any()
    assert aligned[(n % 64 == 0) & (k % 64 == 0)].all()


@pytest.mark.parametrize("model", ["resnet50", "resnet152", "bert-large-uncased"])
def test_an_optimizer_updates_a_few_dozen_tensors_a_launch(model: str) -> None:
    workload = load(model)
    values = product_values(workload)[0]
    (group,) = (group for group in ops_of(workload).groups if group.kind == "memory_bound")
    launches = dict(zip(group.rows.tolist(), group.columns["launches"][:, 0].tolist(), strict=True))
    updates = [(place, values[op.sizes[1]]) for place, op in enumerate(workload.ops) if op.kind == "optimizer"]
    many = [(place, tensors) for place, tensors in updates if tensors > 100]
    assert many
    for place, tensors in many:
        assert 24 <= tensors / launches[place] <= 100


# ---------------------------------------------------------------- loading


@given(st.sampled_from(sorted(loaders())), st.sampled_from(sorted(hosts())), st.floats(1.0, 5000.0))
def test_the_workers_asked_for_are_just_enough(name: str, host: str, rate: float) -> None:
    loader, cpu = loaders()[name], hosts()[host]
    workers = workers_for(loader, cpu, rate)
    if workers == float("inf"):
        assert images_per_s(loader, cpu, 1e9) <= rate * (1 + 1e-6)
        return
    assert images_per_s(loader, cpu, workers) >= rate * (1 - 1e-9)
    assert workers == 1 or images_per_s(loader, cpu, workers - 1) < rate * (1 + 1e-9)


def test_graphs_relieve_the_host_and_compiled_steps_have_fewer_ops() -> None:
    for stack in stacks():
        assert stack.host_factor < 0.1 if stack.how in ("graph", "xla") else stack.host_factor == 1.0, stack.name
    eager, compiled = (host_s(load("resnet50"), compiled) for compiled in (False, True))
    assert 0.2 * eager < compiled < 0.8 * eager


def host_s(workload: Workload, compiled: bool) -> float:
    """What the host needs for this step, eager or compiled."""
    setting = Setting(stack=default_stack(compiled=compiled), host=find_host("desktop"))
    return float(simulate(fused(workload) if compiled else workload, [CARD], setting).lanes["host"][0, 0])
