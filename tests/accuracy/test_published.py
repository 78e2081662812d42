"""Published times of small batches against predictions, for the models that need no capture, and the page that shows them."""

from __future__ import annotations

from functools import cache
from statistics import median

import build_published
from build_published import LATENCIES, PAGE, Compared, compared, latency_line

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
