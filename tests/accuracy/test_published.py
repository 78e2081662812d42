"""Published times of small batches against predictions, for the models that need no capture, and the page that shows them."""

from __future__ import annotations

import csv
from functools import cache
from statistics import median

import build_published
from build_published import LATENCIES, PAGE, Compared, compared, latency_line
from gpuwise.evidence.e2e import questions
from gpuwise.evidence.fits import shipped
from gpuwise.evidence.score import score, setting_of
from gpuwise.evidence.tables import read_table
from gpuwise.evidence.types import Residual
from gpuwise.hardware.catalog import load_catalog
from gpuwise.workload.store import zoo

SMALL_MEDIAN, SMALL_IN_RANGE = 0.149, 0.79  # of the small benchmarks' steps, for models in the zoo
MEDIAN, IN_RANGE = 0.11, 20  # of 20 rows; the error budget only shrinks


@cache
def stored() -> tuple[Compared, ...]:
    """The published times of models in the zoo."""
    return tuple(compared(figure) for figure in LATENCIES if not figure.model.startswith("hf:"))


def test_small_batches_stay_within_budget() -> None:
    assert len(stored()) == 20
    assert median(abs(row.error) for row in stored()) <= MEDIAN
    assert sum(row.held for row in stored()) >= IN_RANGE


def test_the_host_limits_small_batches_and_the_gpu_large_ones() -> None:
    eager = [row for row in stored() if not row.figure.compiled and row.figure.model == "resnet50"]
    assert all(row.by_host for row in eager if row.figure.batch == 1)
    assert not any(row.by_host for row in eager if row.figure.batch == 16 and row.figure.gpu != "A100 SXM 40GB")


def test_the_page_shows_what_is_predicted() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [row.figure.name for row in stored() if latency_line(row) not in page] == []
    assert page.count("| host |") + page.count("| GPU |") >= len(build_published.LATENCIES)


@cache
def small() -> tuple[Residual, ...]:
    """Rows of small benchmarks that time only steps, for models in the zoo."""
    asked, _ = questions(read_table(build_published.BENCHMARKS), zoo_only=True)
    return tuple(
        score([question for question in asked if zoo.has(question.cells["model"]) and question.cells["timed"] == "steps"])
    )


def test_small_benchmarks_that_nothing_was_fitted_to_stay_within_budget() -> None:
    off = [abs(row.predicted_s / row.measured_s - 1) for row in small()]
    assert len(off) >= 100
    assert median(off) <= SMALL_MEDIAN
    assert sum(row.low_s <= row.measured_s <= row.high_s for row in small()) >= SMALL_IN_RANGE * len(off)


def test_no_source_of_the_small_benchmarks_is_part_of_a_fit() -> None:
    fitted = {name.split("/")[0] for name in shipped().factors}
    assert fitted.isdisjoint(cells["source"] for cells in benchmark_cells())


def test_every_small_benchmark_names_its_place_and_a_gpu_of_the_catalogue() -> None:
    for cells in benchmark_cells():
        assert cells["origin"]
        assert cells["timed"] in ("steps", "steps and loading", "first steps too")
        assert load_catalog().find(cells["gpu"]).gpu.name == cells["gpu"]
        assert bool(cells["step_ms"]) != bool(cells["samples_per_s"])


def test_pytorchs_fp32_runs_only_convolutions_as_tf32() -> None:
    asked, _ = questions(read_table(build_published.BENCHMARKS), zoo_only=True)
    plain = [question for question in asked if question.cells["precision"] == "fp32" and question.procedure.tf32_convolutions]
    assert {(setting.tf32, setting.tf32_convolutions) for setting, _ in map(setting_of, plain)} == {(False, True)}


def benchmark_cells() -> list[dict[str, str]]:
    with build_published.BENCHMARKS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
