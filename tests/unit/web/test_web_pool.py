"""Workers of the page: a long question does not delay short ones, and ends when nobody waits for it."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuwise.questions.registry import QUESTIONS
from gpuwise.surfaces.web import pool
from gpuwise.surfaces.web.answers import LIKELY
from gpuwise.surfaces.web.pool import Answers
from gpuwise.surfaces.web.schema import body_of


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


def test_answers_in_memory_have_a_limit_in_bytes(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_KEPT_BYTES", 100_000)
    answers.close()
    for place in range(20):
        for _ in range(2):  # the same twice, as two people may ask at a time
            answers._keep(b"%d" % place, (200, bytes(30_000)))
    assert list(answers._known) == [b"17", b"18", b"19"]
    assert answers._bytes == 3 * (2 + 30_000 + 500)
    answers._keep(b"large", (200, bytes(200_000)))
    assert not answers._known
    assert answers._bytes == 0


def test_answers_that_are_prepared_are_at_hand_and_hold_nobody_up(answers: Answers) -> None:
    likely = [("which", {"task": "vision", "seconds": 0}), ("which", {"seconds": 600})]

    async def early() -> None:
        preparing = asyncio.create_task(answers.prepare(likely))
        assert await answers.ask("predict", {}, stays) == (200, b"predict")  # by its own worker
        while not answers._known.keys() >= {b'which {"seconds":0,"task":"vision"}'}:
            await asyncio.sleep(0.02)
        answers._small.close()  # nobody is asked again
        assert await answers.ask("which", likely[0][1], stays) == (200, b"which")
        preparing.cancel()

    try:
        asyncio.run(early())
    finally:
        answers.close()


def test_a_worker_that_prepares_has_the_lowest_priority() -> None:
    idle, usual = pool._worker(pool._IDLE), pool._worker()
    try:
        assert idle.submit(os.getpriority, os.PRIO_PROCESS, 0).result() == 19
        assert usual.submit(os.getpriority, os.PRIO_PROCESS, 0).result() < 19
    finally:
        idle.shutdown()
        usual.shutdown()


def test_every_purpose_and_budget_that_the_page_offers_is_prepared() -> None:
    script = (Path(pool.__file__).parent / "static/js/views/start.js").read_text(encoding="utf-8")
    aims = re.findall(r'\["[^"]+", \{ (task|model): "([^"]+)" \}\]', script.partition("STORIES")[0])
    budgets = [float(found) for found in re.findall(r'"(\d+)"', re.search(r"BUDGETS = \[(.*?)\]", script)[1])]
    body = body_of(QUESTIONS["which"].options)
    offered = [{key: [name] if key == "model" else name} for key, name in aims]
    assert len(offered) == 7
    for wanted in [*offered, *({**aim, "budget": budget} for aim in offered for budget in budgets)]:
        assert ("which", body(**wanted).model_dump(exclude_defaults=True)) in LIKELY
    for question, options in LIKELY:
        assert body(**options).model_dump(exclude_defaults=True) == options, question
