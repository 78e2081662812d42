"""Buyers' questions from 2014 to 2019: how many gpuwise answers as they were answered then, or as they were measured.

The number answered only ever grows. docs/scenarios.md explains why the others are not, and this test keeps it up to date.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scenarios.registry import ASKED, judged, read
from scenarios.report import page, share
from scenarios.types import Asked, Choice, Judged, Ours, judge, over, scenario, unanswered

ROOT = Path(__file__).parents[2]
QUESTIONS = ROOT.parent / "shared" / "evidence" / "scenarios.jsonl"
ANSWERED = 50
here = pytest.mark.skipif(not QUESTIONS.exists(), reason="the shared questions are not here")


@pytest.fixture(scope="module")
def found() -> list[Judged]:
    return judged(QUESTIONS)


@here
def test_every_numeric_question_is_put_once() -> None:
    assert sorted(ASKED) == sorted(row["id"] for row in read(QUESTIONS))


@here
@pytest.mark.slow
def test_the_number_answered_never_falls(found: list[Judged]) -> None:
    answered, total = share(found)
    assert total == 75
    assert answered >= ANSWERED, [each.asked.id for each in found if not each.doubt and not each.answered]


@here
@pytest.mark.slow
def test_the_page_says_what_is_answered(found: list[Judged]) -> None:
    written = (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")
    assert _heads(written) == _heads(page(found)), (
        "run python tools/check_scenarios.py ../shared/evidence/scenarios.jsonl --page docs/scenarios.md"
    )


@here
@pytest.mark.slow
def test_every_miss_is_explained(found: list[Judged]) -> None:
    assert [each.asked.id for each in found if not each.answered and not each.asked.why] == []


def _heads(text: str) -> list[str]:
    """Titles and ids, in order."""
    return [
        line.split("|")[1].strip() if line.startswith("|") else line for line in text.splitlines() if line.startswith(("|", "#"))
    ]


def _asked(reply: Any, **how: Any) -> Asked:
    return scenario("S000", question="?", how="-", **how)(lambda value: {"x": reply})


@pytest.mark.parametrize(
    ("theirs", "ours", "within"),
    [
        (100, 124.0, "yes"),
        (100, 76.0, "yes"),
        (100, 126.0, "no"),
        ([10, 20], 15.0, "yes"),
        ([10, 20], 24.9, "yes"),
        ([10, 20], 25.1, "no"),
        ([10, 20], 7.4, "no"),
        ([10, 20], Ours(value=40, low=19, high=50), "overlap"),
        (15, Ours(value=40, low=10, high=50), "no"),
        ([0, 0.05], 0.0, "yes"),
        ([0.05, 0.25], 0.0, "no"),
        (0.15, Choice(agrees=False, text="no"), "no"),
    ],
)
def test_what_counts(theirs: Any, ours: Any, within: str) -> None:
    judged_one = judge(_asked(ours), {"value": {"x": theirs}})
    assert [part.within for part in judged_one.parts] == [within]
    assert judged_one.answered is (within != "no")


def test_or_more_means_or_more() -> None:
    assert judge(_asked(50.0, at_least=("x",)), {"value": {"x": 10}}).answered
    assert not judge(_asked(7.0, at_least=("x",)), {"value": {"x": 10}}).answered


def test_a_figure_left_out_is_not_answered() -> None:
    assert not judge(_asked(1.0), {"value": {"x": 1, "y": 2}}).answered
    assert judge(_asked(1.0, given=("y",)), {"value": {"x": 1, "y": 2}}).answered


def test_no_answer_is_no_answer() -> None:
    assert not judge(unanswered("S000", question="?", why="-"), {"value": {"x": 1}}).answered


def test_a_figure_nobody_asked_for_is_an_error() -> None:
    with pytest.raises(KeyError, match="nobody asked"):
        judge(_asked(1.0), {"value": {"y": 1}})


def test_the_middle_of_kinds_is_the_answer() -> None:
    assert over([1.0, 5.0, 2.0]) == Ours(value=2.0, low=1.0, high=5.0)
