"""Fits without a GPU or a family, and the ranges that follow from them."""

from __future__ import annotations

import csv
from importlib.resources import files

import pytest

from gpuwise.evidence.fits import left_out, shipped
from gpuwise.evidence.ranges import Range, operator_range, range_of, ratio_range
from gpuwise.hardware.catalog import load_catalog

OPERATORS = (
    ("ops_fp32", "linear"),
    ("gemm_lowp", "fp8"),
    ("attention", "context"),
    ("deepbench", "conv/fp32/fwd"),
    ("deepbench", "not among them"),
)
PROCEDURES = ("", "timm/eager", "lambda_tf/graph", "ryujaehun/eager")


def measured() -> list[dict[str, str]]:
    with (files("gpuwise.evidence") / "data" / "measurements.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_measured_gpu_and_family_has_a_fit_without_it() -> None:
    assert {load_catalog().find(row["gpu"]).gpu.name for row in measured()} <= left_out("gpu").keys()
    assert {row["family"] for row in measured()} <= left_out("family").keys()


@pytest.mark.parametrize("by", ["gpu", "family"])
def test_a_fit_without_something_has_every_constant_and_differs_from_the_shipped_one(by: str) -> None:
    whole = shipped()
    for name, fit in left_out(by).items():
        assert fit.constants.keys() == whole.constants.keys()
        assert all(value > 0 or whole.constants[key] == 0 for key, value in fit.constants.items())
        moved = [key for key, value in fit.constants.items() if abs(value - whole.constants[key]) > 1e-3 * whole.constants[key]]
        assert moved, f"the fit without {name} is the shipped one"


def test_software_that_only_the_left_out_gpu_ran_has_no_factor_of_its_own() -> None:
    assert "timm/1.12/eager" in shipped().factors
    without = left_out("gpu")["RTX 3090"].factors
    assert "timm/1.12/eager" not in without
    assert "timm/2.4.0/eager" in without
    assert "timm//eager" in without


def every_range() -> list[Range]:
    asked = [
        range_of(known_generation=known, known_stack=stack, bound=bound, procedure=procedure)
        for known in (True, False)
        for stack in (True, False)
        for bound in ("", "launch")
        for procedure in PROCEDURES
    ]
    return [*asked, ratio_range(known=True), ratio_range(known=False), *(operator_range(*names) for names in OPERATORS)]


def test_ranges_lie_around_the_prediction_and_rest_on_rows() -> None:
    for found in every_range():
        assert 0.3 < found.low < 1 < found.high < 3
        assert found.rows >= 10


@pytest.mark.parametrize("bound", ["", "launch"])
@pytest.mark.parametrize("procedure", PROCEDURES)
def test_what_is_less_known_never_has_the_narrower_range(bound: str, procedure: str) -> None:
    def width(*, generation: bool, stack: bool) -> tuple[float, float]:
        found = range_of(known_generation=generation, known_stack=stack, bound=bound, procedure=procedure)
        return -found.low, found.high

    for stack in (True, False):
        assert width(generation=False, stack=stack) >= width(generation=True, stack=stack)
        assert width(generation=False, stack=stack)[1] >= width(generation=True, stack=stack)[1]
    for generation in (True, False):
        assert width(generation=generation, stack=False)[0] >= width(generation=generation, stack=True)[0]
        assert width(generation=generation, stack=False)[1] >= width(generation=generation, stack=True)[1]


def test_an_unknown_stack_widens_a_general_range() -> None:
    known, unknown = (range_of(known_generation=True, known_stack=stack) for stack in (True, False))
    assert unknown.high / unknown.low > 1.1 * known.high / known.low


def test_ratios_of_a_new_generation_are_no_surer() -> None:
    old, new = ratio_range(known=True), ratio_range(known=False)
    assert new.low <= old.low
    assert new.high >= old.high
