"""Shares of the peak: against the types a step computes in, and never above all of it without a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import gpuwise
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu, convolves_in_tf32
from gpuwise.questions.common.peaks import above_peak, peak_in, step_peak
from gpuwise.questions.common.prediction_types import PredictAnswer
from gpuwise.questions.predict.text import render


def gpu(name: str) -> Gpu:
    return load_catalog().find(name).gpu


def asked(*names: str, model: str = "resnet50", **options: Any) -> PredictAnswer:
    return gpuwise.predict(model=model, gpu=names, **{"batch": "64", "precision": "fp32", **options})


@pytest.mark.parametrize(
    ("name", "rounded"),
    [("A100 SXM 80GB", True), ("RTX 3090", True), ("V100 SXM 16GB", False), ("MI300X", False), ("Arc B580", False)],
)
def test_only_nvidia_gpus_with_tf32_convolve_in_it(name: str, rounded: bool) -> None:
    assert convolves_in_tf32(gpu(name)) == rounded


@pytest.mark.parametrize("model", ["resnet50", "vgg16"])
@pytest.mark.parametrize("name", ["A100 SXM 80GB", "H100 SXM 80GB", "B200", "RTX 3090"])
def test_convolutions_in_tf32_are_held_against_its_peak(model: str, name: str) -> None:
    answer = asked(name, model=model)
    (found,) = answer.results
    narrow, wide = gpu(name).best_peak("fp32"), gpu(name).best_peak("tf32")
    assert narrow is not None
    assert wide is not None
    assert found.peak_flops_per_s is not None
    assert found.utilisation_fraction is not None
    assert 0.8 * wide < found.peak_flops_per_s <= wide
    assert found.utilisation_fraction < 1
    assert "convolutions in TF32" in render(answer)


@pytest.mark.parametrize("options", [{"stack": "torch-1.4"}, {"stack": "tf-2.4"}, {"model": "bert-base"}])
def test_what_stays_fp32_is_held_against_fp32(options: dict[str, Any]) -> None:
    (found,) = asked("A100 SXM 80GB", **options).results
    assert found.peak_flops_per_s == gpu("A100 SXM 80GB").best_peak("fp32")
    assert found.computes_in == "fp32"


def test_the_peak_of_a_mixed_step_lies_between_its_types() -> None:
    card = gpu("A100 SXM 80GB")
    found = [step_peak(card, "fp32", share) for share in (0.0, 0.5, 0.9, 1.0)]
    assert found == sorted(found, key=lambda peak: peak or 0.0)
    assert (found[0], found[-1]) == (peak_in(card, "fp32"), card.best_peak("tf32"))
    half = 1 / (0.5 / (found[0] or 1) + 0.5 / (found[-1] or 1))
    assert found[1] == pytest.approx(half)


def test_more_than_the_peak_is_explained() -> None:
    answer = asked("Arc B580", model="vgg16")
    (found,) = answer.results
    notes = {note.name: note.effect for note in found.assumptions}
    assert found.utilisation_fraction is not None
    assert ("Arc B580 utilisation" in notes) == (found.utilisation_fraction > 1)
    (fast,) = asked("Arc B580", model="vgg16", measured=[f"Arc B580={found.step_s * 1e3 / 2.5}ms"]).results
    assert fast.utilisation_fraction is not None
    assert fast.utilisation_fraction > 1
    assert "check the batch size" in next(note.effect for note in fast.assumptions if note.name == "Arc B580 utilisation")
    assert "(nominal)" in render(replace(answer, results=(fast,)))


def test_winograd_is_the_reason_only_where_windows_are_three_by_three() -> None:
    cnn, transformer = (gpuwise.capture(model=name).workload for name in ("vgg16", "bert-base"))
    assert "Winograd" in above_peak(cnn, measured=False)
    assert "Winograd" not in above_peak(transformer, measured=False)
    assert "your step" in above_peak(cnn, measured=True)


def test_comparing_counts_the_arithmetic_that_is_used() -> None:
    base, other = asked("RTX 2080 Ti", "A100 SXM 80GB", model="vgg16").results
    assert (other.peak_flops_per_s or 0) / (base.peak_flops_per_s or 1) > 5
    assert "convolutions in TF32" in render(asked("RTX 2080 Ti", "A100 SXM 80GB", model="vgg16"))


def test_a_ratio_is_not_told_what_shares_of_the_peak_need() -> None:
    answer = gpuwise.compare(["Arc B580", "M1 Max 32-core"], model=["vgg16"], precision="fp32", batch="16")
    assert not any(note.name.endswith("of its peak") for note in answer.assumptions)
