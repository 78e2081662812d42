"""No range reaches below what a GPU can do: products at its peak, weights at its bandwidth."""

from __future__ import annotations

import numpy as np
import pytest

import gpuwise
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_host
from gpuwise.step.time.least import least_s
from gpuwise.step.time.setting import default_stack
from gpuwise.step.time.simulate import simulate
from gpuwise.step.types import Setting
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.types import Settings, Workload
from gpuwise.workload.store import zoo

SETTING = Setting(stack=default_stack(), host=find_host("desktop"))
CARD = load_catalog().find("RTX 3090").gpu


def load(model: str) -> Workload:
    return zoo.load(model, Request(model=model, settings=Settings(mode="infer", precision="fp16")))


def test_a_product_takes_its_flops_over_a_peak_a_little_above_the_sheet() -> None:
    workload = load("gpt2")
    (least,) = least_s(workload, [CARD], SETTING, batch=np.array([8.0]))[0]
    flops = simulate(workload, [CARD], SETTING, batch=np.array([8.0])).flops[0, 0]
    at_peak = flops / (CARD.best_peak("fp16") or 0.0) / 1.15
    assert 0.8 * at_peak < least <= at_peak, "of causal attention only a half counts"


def test_weights_are_read_once_but_not_those_that_are_looked_up() -> None:
    workload = load("gpt2")
    (least,) = least_s(workload, [CARD], SETTING, batch=np.array([1.0]), seq=np.array([1.0]))[0]
    assert least == pytest.approx(124e6 * 2 / CARD.memory_bytes_per_s, rel=0.1)
    small = load("resnet18")
    (cached,) = least_s(small, [load_catalog().find("RTX 4090").gpu], SETTING, batch=np.array([1.0]))[0]
    assert cached < 1e-6, "weights that fit the cache may stay there, and convolutions may be Winograd"


def test_nothing_is_claimed_of_a_cpu() -> None:
    cpu = load_catalog().find("Ryzen 9 5950X").gpu
    least = least_s(load("gpt2"), [CARD, cpu], SETTING, batch=np.array([8.0]))
    assert least[0, 0] > 0.0
    assert least[0, 1] == 0.0


def test_the_low_end_of_a_range_stays_within_the_bandwidth() -> None:
    asked = {"model": "llama-2-7b", "mode": "infer", "phase": "decode", "precision": "fp16", "batch": "1"}
    (found,) = gpuwise.predict(gpu=("RTX 3090",), compile=True, **asked).results
    read = 2 * 6.6e9
    assert read / found.step_low_s <= found.gpu.memory_bytes_per_s
    assert found.step_low_s <= found.step_s
    assert any(note.value == "the hardware's limit" and note.basis == "assumed" for note in found.assumptions)
