"""Figures of accuracy on rows whose answer is known."""

from __future__ import annotations

import pytest

from gpuwise.evidence.metrics import accuracy, baselines
from gpuwise.evidence.types import Residual


def row(
    number: int, gpu: str, measured: float, predicted: float, setup: str = "a", rates: tuple[float, float] = (1.0, 1.0)
) -> Residual:
    return Residual(
        row=number,
        gpu=gpu,
        measured_s=measured,
        predicted_s=predicted,
        low_s=0.8 * predicted,
        high_s=1.25 * predicted,
        setup=(setup,),
        work=(1.0, 1.0),
        rates=rates,
    )


def test_perfect_predictions_have_no_error_and_the_right_order() -> None:
    found = accuracy([row(0, "A", 1.0, 1.0), row(1, "B", 2.0, 2.0), row(2, "C", 4.0, 4.0)])
    assert (found.median_ape, found.bias, found.coverage_fraction) == (0.0, 0.0, 1.0)
    assert found.kendall_tau == 1.0
    assert found.ratio_median_ape == pytest.approx(0.0)


def test_errors_are_counted_against_the_measurement() -> None:
    found = accuracy([row(0, "A", 1.0, 1.5), row(1, "B", 1.0, 0.5), row(2, "C", 1.0, 1.1)])
    assert found.median_ape == pytest.approx(0.5)
    assert found.mean_ape == pytest.approx((0.5 + 0.5 + 0.1) / 3)
    assert found.bias == pytest.approx(0.1)
    assert found.coverage_fraction == pytest.approx(1 / 3)


def test_a_common_factor_is_no_error_of_ratios() -> None:
    found = accuracy([row(0, "A", 1.0, 2.0), row(1, "B", 2.0, 4.0)])
    assert found.ratio_median_ape == pytest.approx(0.0)
    assert found.kendall_tau == 1.0


def test_a_wrong_order_lowers_tau() -> None:
    assert accuracy([row(0, "A", 1.0, 2.0), row(1, "B", 2.0, 1.0)]).kendall_tau == -1.0


def test_gpus_of_different_setups_are_not_ranked() -> None:
    assert accuracy([row(0, "A", 1.0, 2.0, "a"), row(1, "B", 2.0, 1.0, "b")]).kendall_tau is None


def test_ratio_baselines_scale_the_other_gpus_measurement() -> None:
    found = baselines([row(0, "A", 1.0, 1.0, rates=(4.0, 2.0)), row(1, "B", 2.0, 2.0, rates=(1.0, 1.0))])
    assert found["bandwidth_ratio"]["median_ape"] == pytest.approx(0.0)
    assert found["flops_ratio"]["median_ape"] == pytest.approx((1.0 + 0.5) / 2)


def test_nothing_measured_is_no_accuracy() -> None:
    assert accuracy([]).median_ape is None
    assert baselines([]) == {}
