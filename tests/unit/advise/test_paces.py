"""Predicting a job on many GPUs at once gives the same result as on each GPU alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuwise
from asking import predict_query
from gpuwise.advise.jobs import GRID, Job, Pacer
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.choices import Choices
from gpuwise.prediction.ways import Needs
from gpuwise.questions.common.jobs import Asked, price_jobs
from gpuwise.questions.common.predictions import predict as predict_step

NAMES = ("RTX 3090", "RTX 2070", "GTX 1080 Ti", "H100 SXM 80GB", "T4", "GTX 1050 Ti")
GPUS = {gpu.name: gpu for gpu in load_catalog().curated if gpu.name in NAMES}


@pytest.fixture(scope="module")
def pacer() -> Pacer:
    from gpuwise.questions.common.jobs import _model

    return _model(Job(model="resnet18", samples=1.0), Asked(), lambda text: None).pacer


def plain(gpu: Gpu) -> tuple[Choices, ...]:
    return (Choices(precision="fp32"),)


@pytest.mark.parametrize("name", NAMES)
def test_a_pace_is_the_step_that_predict_tells(name: str, pacer: Pacer) -> None:
    pace = pacer.paces(list(GPUS.values()), plain, batch=16)[name]
    (alone,) = gpuwise.predict(model="resnet18", gpu=[name], batch="16", precision="fp32").results
    assert pace.step_s == pytest.approx(alone.step_s, rel=1e-3)
    assert pace.memory_bytes == pytest.approx(alone.memory.total_bytes)
    assert pace.bound == alone.bound


def test_what_does_not_fit_at_once_is_run_in_parts(pacer: Pacer) -> None:
    small = GPUS["GTX 1050 Ti"]
    (pace,) = pacer.paces([small], plain, batch=1024).values()
    assert pace.fits
    assert pace.batch == 1024
    assert pace.micro_batch < 1024
    (part,) = pacer.paces([small], plain, batch=pace.micro_batch).values()
    assert pace.micro_batch * pace.choices.accumulate == 1024
    assert 0.8 < pace.step_s / (part.step_s * pace.choices.accumulate) < 1.1  # one update instead of many, but sums of gradients


@pytest.mark.parametrize("name", ["RTX 3090", "GTX 1080 Ti"])
def test_several_gpus_go_at_the_pace_that_predict_tells(name: str, pacer: Pacer) -> None:
    alone = pacer.paces([GPUS[name]], plain, batch=16)[name]
    several = pacer.shared([alone], 4)[name]
    asked = predict_query(model="resnet18", gpu=[name], gpus=4, batch="16", precision="fp32")
    (predicted,) = predict_step(asked).results
    assert several.step_s == pytest.approx(predicted.step_s, rel=1e-3)
    assert several.samples_per_s == pytest.approx(predicted.samples_per_s, rel=1e-3)
    assert several.memory_bytes == pytest.approx(predicted.memory.total_bytes)


@given(st.sampled_from(NAMES), st.sampled_from(GRID))
def test_no_batch_of_the_grid_that_fits_is_clearly_faster_than_the_one_taken(name: str, size: int) -> None:
    (found,) = price_jobs([Job(model="resnet18", samples=1.0)], [GPUS[name]], Asked(batch="auto", precision="auto"))
    best = found.paces[name]
    assert best.fits
    for precision in ("amp", "fp32"):
        (other,) = price_jobs([Job(model="resnet18", samples=1.0)], [GPUS[name]], Asked(batch=str(size), precision=precision))
        pace = other.paces.get(name)
        if pace and pace.fits and pace.micro_batch == size:
            assert best.samples_per_s >= 0.979 * pace.samples_per_s


def test_the_order_of_questions_changes_nothing(pacer: Pacer) -> None:
    alone = {name: pacer.paces([gpu], plain, batch=None, auto=True)[name] for name, gpu in GPUS.items()}
    assert pacer.paces(list(GPUS.values()), plain, batch=None, auto=True) == alone


def test_needs_are_those_of_memory_and_shared_by_steps_that_hold_the_same(pacer: Pacer) -> None:
    tf32, fp32, mixed = (pacer.workload(Choices(precision=name)) for name in ("tf32", "fp32", "amp"))
    needs = Needs(fp32)
    assert needs.serves(tf32)
    assert not needs.serves(mixed)
    for gpu in GPUS.values():
        whole = needs.memory(gpu, 24).total_bytes
        assert needs.total_bytes(gpu, 24) == pytest.approx(whole)
        assert needs.within(gpu, whole)(24)
        assert not needs.within(gpu, whole - 1)(24)
