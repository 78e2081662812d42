"""Workers of the page: a long question does not delay short ones, and ends when nobody waits for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from gpuwise.surfaces.web import pool
from gpuwise.surfaces.web.pool import Answers


def lasting(question: str, options: Mapping[str, Any], own: object = ()) -> tuple[int, bytes]:
    """In place of an answer: takes as long as it was asked to."""
    time.sleep(options.get("seconds", 0))
    return 200, question.encode()


async def stays() -> bool:
    return False


async def left() -> bool:
    return True


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    monkeypatch.setattr(pool, "answer", lasting)
    monkeypatch.setattr(pool, "_GRACE_S", 0.2)
    return Answers(1)


def test_a_small_question_does_not_wait_for_a_long_one(answers: Answers) -> None:
    async def both() -> None:
        plan = asyncio.create_task(answers.ask("plan", {"seconds": 600}, stays))
        assert await answers.ask("predict", {}, stays) == (200, b"predict")
        assert not plan.done()
        plan.cancel()

    try:
        asyncio.run(both())
    finally:
        answers.close()


def test_a_question_that_nobody_waits_for_ends_and_the_next_is_answered(answers: Answers) -> None:
    async def after_each_other() -> None:
        status, _ = await answers.ask("plan", {"seconds": 600}, left)
        assert status == 503
        assert await answers.ask("plan", {}, stays) == (200, b"plan")

    try:
        asyncio.run(after_each_other())
    finally:
        answers.close()


def test_ending_one_question_spares_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "answer", lasting)
    answers = Answers(2)

    async def beside_each_other() -> None:
        await asyncio.gather(*(answers.ask("warm", {"seconds": 0.2, "place": place}, stays) for place in range(2)))
        other = asyncio.create_task(answers.ask("predict", {"seconds": 2}, stays))
        await asyncio.sleep(0.1)
        monkeypatch.setattr(answers._small, "_seconds", 0.3)  # for those who ask from now on
        status, said = await answers.ask("predict", {"seconds": 600}, stays)
        assert (status, b"longer than" in said) == (503, True)
        assert not other.done()
        assert await other == (200, b"predict")

    try:
        asyncio.run(beside_each_other())
    finally:
        answers.close()


def test_one_who_leaves_the_queue_takes_no_worker_along(answers: Answers) -> None:
    async def crowded() -> None:
        first = asyncio.create_task(answers.ask("plan", {"seconds": 0.5}, stays))
        await asyncio.sleep(0)
        assert (await answers.ask("plan", {"seconds": 600}, left))[0] == 503
        assert await first == (200, b"plan")
        assert await answers.ask("plan", {"place": 3}, stays) == (200, b"plan")

    try:
        asyncio.run(crowded())
    finally:
        answers.close()
