"""A driver that does not answer: nothing waits for it forever, and the state of the power limit is checked or reported."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.live.sample import power_limit
from gpuwise.live.sample.power_limit import Card, held

CARD = Card(uuid="GPU-1", name="a card", now=300_000, least=100_000, most=350_000, default=350_000)


@pytest.fixture(autouse=True)
def _hung_keeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A keeper that neither answers nor ends while anybody waits for it."""
    sleeping, begun = [sys.executable, "-c", "import time; time.sleep(60)"], list[subprocess.Popen[str]]()
    start = subprocess.Popen
    monkeypatch.setattr(power_limit.subprocess, "Popen", lambda *words, **more: begun.append(start(*words, **more)) or begun[0])
    monkeypatch.setattr("gpuwise.live.tune.contained.in_python", lambda *words: sleeping)
    monkeypatch.setattr(power_limit, "_PATIENCE_S", 0.2)
    yield
    begun[0].kill()
    begun[0].wait()
    assert begun[0].stdout is not None
    begun[0].stdout.close()


def test_setting_a_limit_gives_up_and_the_limit_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    monkeypatch.setattr(power_limit, "card_of", lambda uuid: asked.append(uuid) or CARD)
    with pytest.raises(BadValue, match="could not be set to 200 W: the driver has not responded"), held(CARD) as keeper:
        keeper.set(200_000)
    assert asked == ["GPU-1"]


def test_a_limit_that_is_not_back_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power_limit, "card_of", lambda uuid: CARD._replace(now=200_000))
    with pytest.raises(GpuwiseError, match="is 200 W and could not be restored to 300 W") as caught, held(CARD):
        pass
    assert "-pl 300" in caught.value.hint


def test_a_driver_that_cannot_be_asked_either_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power_limit, "card_of", lambda uuid: threading.Event().wait(5))
    with pytest.raises(GpuwiseError, match="may not have been restored to 300 W") as caught, held(CARD):
        pass
    assert "-pl 300" in caught.value.hint
