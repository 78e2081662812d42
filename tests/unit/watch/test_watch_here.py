"""Watching from inside a program, with the real torch and Keras on tiny data."""

from __future__ import annotations

import copy
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

import gpuwise
from gpuwise.questions.watch.types import WatchAnswer

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow


class Slow(torch.utils.data.Dataset):  # type: ignore[name-defined, misc]
    """Samples that take a while."""

    def __init__(self, count: int, wait_s: float) -> None:
        self._count, self._wait_s = count, wait_s

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> Any:
        time.sleep(self._wait_s)
        return torch.ones(8)


def train(batches: Any) -> int:
    model = torch.nn.Linear(8, 1)
    update = torch.optim.SGD(model.parameters(), lr=1e-3)
    count = 0
    for batch in batches:
        update.zero_grad()
        model(batch).mean().backward()
        update.step()
        count += 1
    return count


def loader(count: int = 160, wait_s: float = 0.004) -> Any:
    return torch.utils.data.DataLoader(Slow(count, wait_s), batch_size=4)


def check_starved(answer: WatchAnswer | None) -> None:
    assert answer is not None
    assert answer.pace is not None
    assert (answer.pace.by, answer.pace.batch, answer.pace.workers) == ("optimizer", 4, 0)
    assert answer.findings[0].code == "input_starved"
    assert answer.pace.wait_fraction > 0.3
    assert sum(answer.parts_s.values()) == pytest.approx(answer.pace.mean_s)


def test_a_loop_is_watched(capsys: pytest.CaptureFixture[str]) -> None:
    watched = gpuwise.watch(loader())
    assert len(watched) == 40
    assert train(watched) == 40
    check_starved(watched.answer)
    assert watched.answer is not None
    assert watched.answer.window is not None, "a few steps are recorded by the profiler"
    assert "the step waits for the input pipeline" in capsys.readouterr().out


def test_a_block_is_watched_and_left_as_it_was() -> None:
    before = torch.utils.data.DataLoader.__iter__
    with gpuwise.watch(quiet=True, profile=False) as watched:
        assert train(loader()) == 40
    check_starved(watched.answer)
    assert watched.answer is not None
    assert watched.answer.window is None
    assert torch.utils.data.DataLoader.__iter__ is before
    assert type(iter(loader())).__module__.startswith("torch.")


def test_a_loop_that_is_left_early_is_judged_too() -> None:
    watched = gpuwise.watch(loader(), quiet=True, profile=False)
    update = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1e-3)
    for place, _ in enumerate(watched):
        update.step()
        if place == 12:
            break
    assert watched.answer is not None
    assert watched.answer.pace is not None
    assert watched.answer.pace.count == 12


def test_a_fault_of_the_program_stays_the_programs() -> None:
    watched = gpuwise.watch(quiet=True, profile=False)
    with pytest.raises(ZeroDivisionError), watched:
        assert 1 / 0
    assert watched.answer is not None
    assert watched.answer.run.ended_by == "ZeroDivisionError"


def test_any_iterable_can_be_watched() -> None:
    def numbers() -> Iterator[int]:
        for number in range(12):
            time.sleep(0.02)
            yield number

    watched = gpuwise.watch(numbers(), quiet=True)
    assert sum(watched) == 66
    assert watched.answer is not None
    assert watched.answer.pace is not None
    assert watched.answer.pace.by == "batches"
    assert watched.answer.pace.wait_fraction > 0.8


def test_a_watched_iterator_can_be_copied_and_is_the_one_inside_in_all_else() -> None:
    from gpuwise.live.hook.gpuwise_steps import Marks, Timed

    timed = Timed(iter([1, 2]), Marks("nowhere"))
    assert list(copy.copy(timed)) == [1, 2]
    with pytest.raises(AttributeError):
        _ = timed.no_such_name


def test_a_watch_without_a_loader_is_no_loop() -> None:
    with pytest.raises(TypeError, match="works in a `with` statement, not in a loop"):
        iter(gpuwise.watch()).__next__()


def test_a_fit_of_keras_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras")
    import numpy as np

    class Data(keras.utils.PyDataset):  # type: ignore[name-defined, misc]
        def __len__(self) -> int:
            return 20

        def __getitem__(self, place: int) -> Any:
            time.sleep(0.03)
            return np.ones((4, 8), "float32"), np.ones((4, 1), "float32")

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile(loss="mse", optimizer="sgd")
    own = keras.Model.fit
    seen: list[int] = []
    told = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch))
    with gpuwise.watch(quiet=True, profile=False) as watched:
        model.fit(Data(), None, None, 2, 0, [told])
    assert keras.Model.fit is own
    assert seen == [0, 1], "callbacks of the program's own, here given by place, are kept"
    assert watched.answer is not None
    assert watched.answer.pace is not None
    assert (watched.answer.pace.count, watched.answer.pace.batch, watched.answer.pace.workers) == (39, 4, 0)
    assert [finding.code for finding in watched.answer.findings[:2]] == ["input_starved", "single_process_loader"]


def test_importing_gpuwise_is_light() -> None:
    code = "import sys, gpuwise; gpuwise.watch; print([n for n in ('torch', 'numpy', 'rich', 'msgspec') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
