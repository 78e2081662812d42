"""From a watched run to an answer: what cannot be told becomes a note, never a fault of the training."""

from __future__ import annotations

import pytest

import gpuwise
from gpuwise.api.watching import judge
from gpuwise.errors import GpuwiseError
from gpuwise.watch.types import GpuSample, Run, Sight


def run_on(name: str) -> Run:
    """A run without steps on a GPU that its driver calls so."""
    gpu = GpuSample(index=0, name=name, memory_bytes=8 * 2.0**30, busy_fraction=0.9)
    return Run(
        sights=(Sight(at_s=0.5, gpus=(gpu,), host=None),), marks={}, traces=(), pids=frozenset({1}), faults=(), seconds=1.0
    )


def test_a_precision_that_the_gpu_does_not_have_is_a_note() -> None:
    assert judge(run_on("NVIDIA GeForce GTX 1080"), title="a run", model="resnet18").expected is not None
    answer = judge(run_on("NVIDIA GeForce GTX 1080"), title="a run", model="resnet18", precision="tf32")
    assert answer.expected is None
    assert any("nothing is expected of resnet18: GTX 1080" in note for note in answer.notes)
    assert answer.verdict


def test_a_model_that_nobody_knows_is_refused_before_the_watch_begins() -> None:
    with pytest.raises(GpuwiseError, match="resnet5000"):
        gpuwise.watch(model="resnet5000")
    with pytest.raises(GpuwiseError, match="--model"):
        gpuwise.watch(precision="amp")


def test_a_fault_of_the_telling_does_not_reach_the_training(capsys: pytest.CaptureFixture[str]) -> None:
    def tell(answer: object) -> None:
        raise OSError("the logger has gone")

    with gpuwise.watch(quiet=True, profile=False, then=tell) as watched:
        pass
    assert watched.answer is not None
    assert "OSError: the logger has gone" in capsys.readouterr().err


def test_a_fault_of_the_judging_does_not_reach_the_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*given: object, **named: object) -> None:
        raise ValueError("no verdict")

    monkeypatch.setattr("gpuwise.api.watching_here.judge", fail)
    with gpuwise.watch(quiet=True, profile=False) as watched:
        pass
    assert watched.answer is None
    assert "no verdict" in capsys.readouterr().err
