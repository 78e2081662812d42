"""A step on lanes: what limits it, and that its parts add up."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from gpuwise.core.errors import BadValue
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_host
from gpuwise.step.memory.peak import memory_of
from gpuwise.step.time.setting import default_stack, find_stack, stacks
from gpuwise.step.time.simulate import simulate
from gpuwise.step.types import BOUNDS, Setting
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.evaluate import peak_memory
from gpuwise.workload.model.types import Settings, Workload
from gpuwise.workload.store import zoo


@cache
def load(model: str, precision: str = "amp", mode: str = "train") -> Workload:
    return zoo.load(model, Request(model=model, settings=Settings(mode=mode, precision=precision, optimizer="momentum")))


def gpus(*names: str) -> list[Any]:
    return [load_catalog().find(name).gpu for name in names]


def setting(**changes: Any) -> Setting:
    return replace(Setting(stack=default_stack(), host=find_host("desktop")), **changes)


def test_shares_sum_to_one_and_name_the_bound() -> None:
    steps = simulate(load("resnet50"), gpus("RTX 3090", "T4", "H100"), setting(), batch=np.array([1.0, 16.0, 256.0]))
    total = sum(steps.shares[name] for name in BOUNDS)
    assert np.allclose(total, 1.0)
    assert steps.bound.shape == (3, 3)
    assert steps.bound[0, 2] == "launch"
    assert steps.bound[2, 0] in ("compute", "memory")


def test_a_step_is_at_least_its_longest_lane() -> None:
    steps = simulate(load("resnet18"), gpus("RTX 4090", "GTX 1070"), setting(), batch=np.array([4.0, 64.0]))
    for lane in steps.lanes.values():
        assert np.all(steps.seconds >= lane)


def test_a_larger_batch_is_never_less_work() -> None:
    taken = simulate(load("resnet50"), gpus("RTX 3090", "T4"), setting(), batch=2.0 ** np.arange(12)).seconds
    assert np.all(np.diff(taken, axis=0) >= 0)


def test_many_sizes_and_gpus_at_once_are_the_same_as_one_by_one() -> None:
    names = ("RTX 3090", "A100 PCIe 40GB")
    together = simulate(load("resnet18"), gpus(*names), setting(), batch=np.array([8.0, 64.0])).seconds
    for point, batch in enumerate((8.0, 64.0)):
        for place, name in enumerate(names):
            alone = simulate(load("resnet18"), gpus(name), setting(), batch=np.array([batch])).seconds[0, 0]
            assert together[point, place] == pytest.approx(alone, rel=1e-9)


def test_time_adds_up_over_repeated_layers_when_the_gpu_is_busy() -> None:
    """ResNet-152 has the blocks of ResNet-101 and 17 more of one kind, each as long as those of ResNet-101 over ResNet-50."""
    taken = {
        name: simulate(load(name), gpus("RTX 3090"), setting(), batch=np.array([128.0])).seconds[0, 0]
        for name in ("resnet50", "resnet101", "resnet152")
    }
    one = (taken["resnet101"] - taken["resnet50"]) / 17  # 17 blocks of the third stage
    assert taken["resnet152"] - taken["resnet101"] == pytest.approx(17 * one, rel=0.2)


def test_a_slow_loader_is_named() -> None:
    steps = simulate(load("resnet50"), gpus("RTX 3090"), setting(loader_samples_per_s=100.0), batch=np.array([64.0]))
    assert steps.bound[0, 0] == "input"
    assert steps.seconds[0, 0] == pytest.approx(0.64, rel=0.05)


def test_a_slow_link_is_named() -> None:
    steps = simulate(load("alexnet", mode="infer"), gpus("H100"), setting(link_bytes_per_s=2e8), batch=np.array([256.0]))
    assert steps.bound[0, 0] == "copy"


def test_classes_add_up_to_the_gpu_lane() -> None:
    steps = simulate(load("resnet50"), gpus("RTX 3090"), setting(), batch=np.array([64.0]))
    assert sum(entry.seconds[0, 0] for entry in steps.classes) == pytest.approx(steps.lanes["gpu"][0, 0], rel=1e-9)


def test_memory_is_the_peak_and_what_comes_on_top() -> None:
    found = memory_of(load("resnet50"), 64)
    assert found.total_bytes > peak_memory(load("resnet50"), 64).total_bytes
    assert memory_of(load("resnet50"), 128).activation_bytes == pytest.approx(2 * found.activation_bytes, rel=0.05)


@pytest.mark.parametrize(
    ("text", "name"),
    [("torch-2.4", "torch-2.4"), ("pytorch 2.4.1", "torch-2.4"), ("PyTorch2.9", "torch-2.9"), ("tf-2.4", "tf-2.4 graph")],
)
def test_stacks_are_found_by_name(text: str, name: str) -> None:
    assert find_stack(text)[0].name == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("torch-2.0", "torch-2.3"),
        ("torch-2.1", "torch-2.3"),
        ("torch-2.2.1", "torch-2.3"),
        ("torch-2.6", "torch-2.5"),
        ("torch-2.7", "torch-2.5"),  # as near to 2.9
        ("torch-2.8", "torch-2.9"),
        ("torch-3.1", "torch-2.9"),
        ("torch-1.14", "torch-1.13"),
        ("torch-1.99", "torch-1.13"),
        ("torch-1.10", "torch-1.9"),
        ("torch-0.4", "torch-1.4"),
        ("torch-2.1 compile", "torch-2.9 compile"),
        ("tf-2.0", "tf-2.2 graph"),
        ("tf-2.15", "tf-2.4 graph"),
        ("tf-1.4", "tf-1.15 graph"),
    ],
)
def test_an_unmeasured_version_is_read_as_the_nearest_of_its_era(text: str, name: str) -> None:
    stack, remark = find_stack(text)
    assert stack.name == name
    assert f"the nearest measured version, {name}, is used" in remark


@pytest.mark.parametrize("version", ["1.0", "1.13", "1.20", "2.0", "2.1", "2.2", "2.20", "9.0"])
def test_no_version_is_read_as_one_that_runs_attention_in_another_way(version: str) -> None:
    assert find_stack(f"torch-{version}")[0].fused_attention == (float(version.split(".")[0]) >= 2)


def test_a_version_without_a_compiler_is_not_read_as_one_that_has_it() -> None:
    with pytest.raises(BadValue, match=r"no version close to torch 1\.13 was measured in compile mode") as caught:
        find_stack("torch-1.13", compiled=True)
    assert "torch-2.9" in caught.value.hint


def test_an_unmeasured_version_takes_the_nearest_and_says_so() -> None:
    stack, remark = find_stack("torch-2.6")
    assert stack.version in {known.version for known in stacks()}
    assert "2.6" in remark
