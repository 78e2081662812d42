"""The GTX 970: 3.5 GiB of fast memory, and half a GiB behind a narrow path."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from asking import predict_query
from gpuwise.core.units import GIB
from gpuwise.hardware.catalog import load_catalog
from gpuwise.questions.common.prediction_types import Prediction
from gpuwise.questions.common.predictions import predict as predict_step
from gpuwise.step.time.setting import fast_part, slow_s, spilled_bytes
from gpuwise.surfaces.cli.app import app

CARD = load_catalog().find("GTX 970").gpu
OTHER = load_catalog().find("GTX 980").gpu


def step(batch: int, name: str = "GTX 970") -> Prediction:
    query = predict_query(model="resnet50", gpu=[name], precision="fp32", batch=str(batch))
    return predict_step(query).results[0]


def crossing() -> int:
    """The first batch that outgrows the fast segment."""
    return next(batch for batch in range(2, 60) if step(batch).memory.total_bytes > CARD.usable_memory_bytes)


def test_the_data_are_nvidias_statement_of_2015() -> None:
    assert CARD.usable_memory_bytes == 3.5 * GIB
    assert CARD.slow_memory_bytes == 0.5 * GIB
    assert fast_part(CARD).memory_bytes_per_s == pytest.approx(7 / 8 * CARD.memory_bytes_per_s, rel=0.001)
    assert CARD.slow_memory_bytes_per_s == pytest.approx(CARD.memory_bytes_per_s / 8, rel=0.01)
    assert CARD.fact("slow_memory_bytes").source.id == "nvidia-gtx970-memory"
    assert fast_part(OTHER) is OTHER


def test_only_what_the_fast_segment_cannot_hold_is_slow() -> None:
    assert [spilled_bytes(CARD, size * GIB) / GIB for size in (1, 3.5, 3.75, 4, 9)] == [0, 0, 0.25, 0.5, 0.5]
    assert slow_s(CARD, 3.5 * GIB, 1e11) == 0
    assert spilled_bytes(OTHER, 9 * GIB) == 0
    # a fifteenth of the traffic at 28 instead of 196.4 GB/s
    assert slow_s(CARD, 3.75 * GIB, 1e11) == pytest.approx(1e11 / 15 * (1 / 28e9 - 1 / 196.4e9))


def test_a_step_that_spills_is_slower_than_its_size_explains_and_says_why() -> None:
    first = crossing()
    inside, outside = step(first - 1), step(first + 1)
    elsewhere = step(first + 1, "GTX 980").step_s / step(first - 1, "GTX 980").step_s
    assert outside.step_s / inside.step_s > 1.02 * elsewhere
    assert outside.bound_fractions["memory"] > inside.bound_fractions["memory"]
    assert sum(outside.bound_fractions.values()) == pytest.approx(1)
    assert outside.fits
    names = [{entry.name for entry in result.assumptions} for result in (inside, outside)]
    assert "GTX 970 slow memory" not in names[0]
    assert "GTX 970 slow memory" in names[1]
    assert not step(4 * first).fits


def test_a_table_of_several_gpus_says_it_too() -> None:
    done = CliRunner().invoke(
        app,
        ["predict", "resnet50", "--gpu", "GTX 970", "--gpu", "GTX 980", "--batch", str(crossing() + 1), "--precision", "fp32"],
    )
    assert "GTX 970 slow memory" in done.output
    assert done.output.count("assumptions: ") == 1


def test_the_automatic_batch_stays_in_the_fast_segment() -> None:
    query = predict_query(model="resnet50", gpu=["GTX 970"], precision="fp32", batch="auto")
    assert predict_step(query).results[0].memory.total_bytes <= CARD.usable_memory_bytes
