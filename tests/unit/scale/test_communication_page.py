"""The page about communication shows what the functions compute."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest

from gpuwise.hardware.machines import find_host
from gpuwise.scale.cluster.collectives import collective_s, load_scaling, moved_fraction
from gpuwise.scale.cluster.parse import parse_cluster
from gpuwise.scale.split.hybrid import hybrid
from gpuwise.scale.split.layers import data_parallel_elements, equal_batch, message_count, model_parallel_elements
from gpuwise.step.time.setting import find_stack
from gpuwise.step.types import Setting
from gpuwise.workload.store import zoo

PAGE = (Path(__file__).parents[3] / "docs" / "concepts" / "communication.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("gpu", ["A100 SXM 80GB", "H100 SXM 80GB", "B200", "RTX PRO 6000 Blackwell"])
def test_bus_bandwidths(gpu: str) -> None:
    cluster, size = parse_cluster(f"8x{gpu}")[0], 2.0**29
    rates = [
        float(moved_fraction("all_reduce", n)) * size / float(collective_s("all_reduce", size, cluster, n)) for n in (2, 4, 8)
    ]
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {gpu}")]
    assert " / ".join(f"{rate / 1e9:.0f}" for rate in rates) in line


def test_the_worked_layer() -> None:
    shown = (
        data_parallel_elements(1000, 500),
        model_parallel_elements(1000, 500, 128, gathers_outputs=False),
        model_parallel_elements(1000, 500, 128),
    )
    for elements in shown:
        assert f"| {elements:,.0f} |" in PAGE
    assert f"| {equal_batch(1000, 500, gathers_outputs=False):.0f} |" in PAGE
    assert f"| {equal_batch(1000, 500):.0f} |" in PAGE


def test_the_gradient_that_goes_to_everyone() -> None:
    for count in (1, message_count(3, 2, senders=1), message_count(3, 2), message_count(3, 4)):
        assert f"| {count} | {count * 0.75:.2f} ms |" in PAGE
    for nodes, words in ((2, "{} ms on two nodes"), (4, "{} ms on four")):
        cluster = parse_cluster(f"{nodes}x3x GTX 1080 Ti", network="40Gbit")[0]
        seconds = float(collective_s("all_reduce", 4e6, cluster, 3, nodes))
        assert words.format(f"{seconds * 1e3:.1f}") in PAGE.replace("\n", " ").replace("and ", "")


def test_alexnet_and_the_fitted_constants() -> None:
    setting = Setting(stack=find_stack("torch-1.0")[0], host=find_host("desktop"))
    four, eight = (hybrid(zoo.load("alexnet"), parse_cluster(f"{n}x K20")[0], setting, batch=128).speed_up for n in (4, 8))
    words = PAGE.replace("\n", " ")
    assert f"{four:.2f} on four cards and {eight:.2f} on eight" in words
    found = load_scaling()
    slowed = found["slowed_fraction"]
    assert f"takes {100 * found['waits_per_doubling']:.1f}% longer for each doubling" in words
    assert f"{100 * slowed['torch']:.0f}% slower in PyTorch and {100 * slowed['tf']:.0f}% slower in TensorFlow" in words


def test_constants_say_what_they_rest_on() -> None:
    for name in ("collectives.json", "scaling.json"):
        assert json.loads((files("gpuwise.scale") / "data" / name).read_text(encoding="utf-8"))["fitted_on"]
