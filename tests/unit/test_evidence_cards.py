"""The order of cards is found from reports of different workloads, each for some of the cards."""

import numpy as np
import pytest

from gpuwise.evidence.metrics import CardRow, card_speeds, order_agreement

SPEEDS = {"slow": 0.0, "middle": 1.0, "fast": 2.0}


def _rows(noise: float = 0.0) -> list[CardRow]:
    random = np.random.default_rng(1)
    pairs = [("slow", "small"), ("middle", "small"), ("middle", "large"), ("fast", "large"), ("fast", "huge"), ("slow", "huge")]
    levels = {"small": 3.0, "large": -1.0, "huge": -4.0}
    return [
        CardRow(card, workload, number, SPEEDS[card] + levels[workload] + noise * random.normal(), SPEEDS[card])
        for number in range(9)
        for card, workload in pairs
    ]


def test_speeds_of_cards_do_not_depend_on_what_they_were_asked_to_run() -> None:
    found = card_speeds(_rows())
    assert found["middle"] - found["slow"] == pytest.approx(1.0, abs=0.01)
    assert found["fast"] - found["slow"] == pytest.approx(2.0, abs=0.01)


def test_one_report_that_is_far_off_does_not_change_a_speed() -> None:
    off = CardRow("middle", "small", 99, -20.0, 1.0)
    found = card_speeds([*_rows(noise=0.05), off])
    assert found["middle"] - found["slow"] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    ("predicted", "expected"),
    [
        ({"slow": 1.0, "middle": 2.0, "fast": 3.0}, 1.0),
        ({"slow": 3.0, "middle": 2.0, "fast": 1.0}, -1.0),
        ({"slow": 1.0, "middle": 3.0, "fast": 2.0}, 1 / 3),
    ],
)
def test_agreement_counts_pairs(predicted: dict[str, float], expected: float) -> None:
    assert order_agreement(SPEEDS, predicted) == pytest.approx(expected)


def test_cards_that_are_nearly_equal_are_not_ranked() -> None:
    assert order_agreement({"a": 0.0, "b": 0.01, "c": 1.0}, {"a": 2.0, "b": 1.0, "c": 3.0}) == 1.0
