"""GPUs of makers that were never measured: wide ranges that are said to be assumed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.evidence.ranges import UNMEASURED_RANGE, _file, as_known, knows_vendor, pair_range, range_of, step_range
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.prediction_types import PredictAnswer, Prediction
from gpuwise.questions.compare.figure import ratios_figure
from gpuwise.questions.predict.figure import steps_figure
from gpuwise.questions.predict.text import render
from gpuwise.questions.tune.predicting import Predictor
from gpuwise.surfaces.cli.app import app

UNMEASURED = {"TPU v4": ("Google", "XLA")}


def gpu(name: str) -> Gpu:
    return load_catalog().find(name).gpu


def asked(*names: str, **options: Any) -> PredictAnswer:
    return gpuwise.predict(model="resnet50", gpu=names, **options)


def notes(result: Prediction) -> dict[str, str]:
    return {note.name: f"{note.value}: {note.effect}" for note in result.assumptions}


@pytest.mark.parametrize("name", UNMEASURED)
@pytest.mark.parametrize("bound", ["", "launch"])
def test_a_maker_without_measurements_has_the_wider_range_on_no_rows(name: str, bound: str) -> None:
    unknown, known = step_range(gpu(name), bound), step_range(gpu("RTX 3090"), bound)
    assert not knows_vendor(gpu(name))
    assert unknown.rows == 0 < known.rows
    assert unknown.low <= UNMEASURED_RANGE[0] < known.low
    assert unknown.high >= UNMEASURED_RANGE[1] > known.high


@pytest.mark.parametrize("name", ["RTX 3090", "RX 6800", "MI300X", "RTX 5090", "M1 Max 32-core", "Arc B580"])
def test_makers_in_the_fit_keep_their_measured_range(name: str) -> None:
    assert knows_vendor(gpu(name))
    assert step_range(gpu(name)).rows > 0


@pytest.mark.parametrize("name", UNMEASURED)
def test_the_sentence_and_the_assumptions_say_that_nothing_was_measured(name: str) -> None:
    maker, backend = UNMEASURED[name]
    answer = asked(name)
    (result,) = answer.results
    told = notes(result)
    assert result.range_basis == "assumed"
    assert f"because no {maker}" in told[f"{name} range"]
    assert told[f"{name} backend"].startswith(f"{backend}: not measured")
    assert f"with {backend}" in told["stack"]
    assert maker in told["cpu"]
    assert "80% of measurements" not in render(answer)
    assert "assumed, not measured" in render(answer)


def test_a_measured_card_beside_one_that_is_not_keeps_its_words() -> None:
    answer = asked("RTX 3090", "TPU v4")
    known, unknown = answer.results
    assert (known.range_basis, unknown.range_basis) == ("measured", "assumed")
    assert not any(name.startswith("RTX 3090") for name in notes(known))
    assert "80% of measurements" in render(asked("RTX 3090"))
    footer = steps_figure(answer).footer
    assert "for TPU v4" in footer
    assert "RTX 3090" not in footer


def test_a_new_generation_of_a_known_maker_is_said_to_be_one() -> None:
    (result,) = asked("MI300X").results
    assert "no GPU of the cdna3 generation" in notes(result)["MI300X range"]


def test_a_cpu_is_not_said_to_be_measured_either() -> None:
    answer = asked("Ryzen 9 7950X", precision="fp32")
    assert answer.results[0].range_basis == "assumed"
    assert "80% of measurements" not in render(answer)


@pytest.mark.parametrize("name", UNMEASURED)
def test_a_ratio_with_an_unmeasured_maker_is_as_unsure_as_its_step(name: str) -> None:
    there, back = pair_range(gpu("RTX 3090"), gpu(name)), pair_range(gpu(name), gpu("RTX 3090"))
    assert there.rows == back.rows == 0
    assert there.low <= UNMEASURED_RANGE[0]
    assert there.high >= UNMEASURED_RANGE[1]
    assert back.low == pytest.approx(1 / there.high)
    assert back.high == pytest.approx(1 / there.low)


def test_comparing_says_which_ratios_are_assumed() -> None:
    answer = gpuwise.compare(["RTX 3090", "TPU v4"], model=["resnet50"])
    (pair,) = answer.pairs
    assert pair.range_basis == "assumed"
    assert "assumed" in ratios_figure(answer).footer
    assert any("because no Google" in note.effect for note in answer.assumptions)


def test_a_step_measured_on_the_gpu_itself_needs_no_assumed_range() -> None:
    (plain,) = asked("TPU v4").results
    (own,) = asked("TPU v4", measured=[f"TPU v4={plain.step_s * 1.1e3}ms"]).results
    assert own.range_basis == "measured"
    assert "TPU v4 range" not in notes(own)


def test_a_plan_on_an_unmeasured_maker_is_as_unsure() -> None:
    done = CliRunner().invoke(app, ["plan", "gpt2", "--cluster", "1x2xTPU v4", "--json"])
    found = json.loads(done.output)
    best = found["plans"][0]
    assert best["step_low_s"] <= UNMEASURED_RANGE[0] * best["step_s"] * 1.001
    assert best["step_high_s"] >= UNMEASURED_RANGE[1] * best["step_s"] * 0.999
    assert any("because no Google" in note["effect"] for note in found["assumptions"])


def test_a_gain_on_an_unmeasured_maker_is_assumed_too() -> None:
    known, unknown = (Predictor(torch="2.9", gpu=gpu(name)) for name in ("RTX 3090", "TPU v4"))
    wide, narrow = unknown.expected("batch", 2.0), known.expected("batch", 2.0)
    assert wide is not None
    assert narrow is not None
    assert wide.low < narrow.low < narrow.high < wide.high
    (told,) = unknown.notes(("batch",))
    assert told.basis == "assumed"
    assert "no Google GPU was measured" in told.effect


def test_ranges_are_wider_for_generations_that_are_predicted_less_well() -> None:
    usual = range_of(known_generation=True, known_stack=True)
    scales = _file().scales
    assert scales["known"]
    for known_stack, name in ((True, "known"), (False, "unknown")):
        for generation, scale in scales[name].items():
            some = next(one for one in load_catalog().gpus if one.architecture.generation == generation)
            plain, wide = as_known(usual, some, known_stack=known_stack), usual.widened(scale)
            assert 1.0 < scale <= 2.0
            assert plain.low <= wide.low
            assert plain.high >= wide.high
