"""From a watched run to an answer: what cannot be determined becomes a note, never a problem of the training."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

import gpuwise
from gpuwise.core.errors import GpuwiseError
from gpuwise.diagnose.types import Finding, Gain
from gpuwise.live.hook.gpuwise_steps import RECORD
from gpuwise.live.sample.types import GpuSample, Run, Sight
from gpuwise.questions.watch.judging import judge


def run_on(name: str) -> Run:
    """A run without steps on a GPU that its driver calls so."""
    gpu = GpuSample(index=0, name=name, memory_bytes=8 * 2.0**30, busy_fraction=0.9)
    return Run(
        sights=(Sight(at_s=0.5, gpus=(gpu,), host=None),), marks={}, traces=(), pids=frozenset({1}), faults=(), seconds=1.0
    )


def test_a_precision_that_the_gpu_does_not_have_is_told() -> None:
    assert judge(run_on("NVIDIA GeForce GTX 1080"), title="a run", model="resnet18").expected is not None
    answer = judge(run_on("NVIDIA GeForce GTX 1080"), title="a run", model="resnet18", precision="tf32")
    assert answer.expected is None
    (told,) = [entry for entry in answer.abstained if entry.code == "slower_than_expected"]
    assert "no prediction for resnet18: the GTX 1080" in told.reason
    assert "--model" not in told.record_next
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

    monkeypatch.setattr("gpuwise.questions.watch.here.judge", fail)
    with gpuwise.watch(quiet=True, profile=False) as watched:
        pass
    assert watched.answer is None
    assert "no verdict" in capsys.readouterr().err


def windowed(wait_s: float, work_s: float) -> Run:
    """Twenty timed steps, and a profiler's window that says the same of each: its reader is replaced."""
    at, data = 10.0, b""
    for _ in range(20):
        data += RECORD.pack(b"B", at, at, 0) + RECORD.pack(b"E", at + wait_s, at, 8)
        at += wait_s + work_s
        data += RECORD.pack(b"S", at, at, 0)
    return Run(sights=(), marks={1: data}, traces=(Path("a.trace.json"),), pids=frozenset({1}), faults=(), seconds=1.0)


def said(step_s: float, input_wait_s: float, finding: Finding) -> SimpleNamespace:
    parts = SimpleNamespace(parts_s={"input_wait": input_wait_s, "gpu_busy": step_s - input_wait_s})
    return SimpleNamespace(view=SimpleNamespace(step_s=step_s, parts=parts), findings=(finding,), abstained=(), cut=())


def test_what_the_profiler_says_is_told_in_seconds_of_the_timed_step(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Finding(
        code="launch_bound",
        title="launches",
        seconds_per_step=0.15,
        share_fraction=0.75,
        gain=Gain(low=2.0, high=3.2),
        confidence="high",
        evidence=(),
        remedy="compile",
        verify="again",
    )
    monkeypatch.setattr("gpuwise.questions.watch.judging.diagnose", lambda files: said(0.2, 0.0, found))
    (told,) = (one for one in judge(windowed(0.06, 0.04), title="a run").findings if one.code == "launch_bound")
    assert told.seconds_per_step == pytest.approx(0.03), "three quarters of the 40 ms that are no waiting"
    assert told.share_fraction == pytest.approx(0.3)
    assert told.gain.low == pytest.approx(0.1 / 0.08)
    assert told.gain.high == pytest.approx(0.1 / (0.1 - 0.04 * 2.2 / 3.2))
    assert told.gain.high < 0.1 / 0.06, "the wait stays"
    (alone,) = (one for one in judge(windowed(0.0, 0.2), title="a run").findings if one.code == "launch_bound")
    assert (alone.share_fraction, alone.gain.low, alone.gain.high) == pytest.approx((0.75, 2.0, 3.2))


def test_the_cores_are_counted_in_runs_too_short_to_look_at() -> None:
    assert judge(windowed(0.0, 0.2), title="a run").vitals.core_count == os.cpu_count()


def test_a_watch_that_was_never_finished_is_finished_when_it_begins_again() -> None:
    told: list[str] = []
    watched = gpuwise.watch(quiet=True, profile=False, then=lambda answer: told.append(answer.run.ended_by))
    before = threading.active_count()
    for _ in range(3):
        watched.begin()  # a `fit` that Ctrl-C ends calls nothing at its end
    assert threading.active_count() == before + 1
    watched.finish()
    assert threading.active_count() == before
    assert told == ["interrupted", "interrupted", ""]
