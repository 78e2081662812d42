"""Steps, parts and the replay, on runs whose shape is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpuwise.diagnose.checks import host_sync
from gpuwise.diagnose.parts import launch_latency_ns, take_apart
from gpuwise.diagnose.replay import Change, record
from gpuwise.diagnose.scene import Scene, make_scene
from gpuwise.diagnose.view import make_view
from gpuwise.trace.read import read_trace
from making_hosts import Host
from making_traces import ALL_REDUCE, HGEMM, RELU, SGEMM, Run, training


def scene(run: Run, folder: Path) -> Scene:
    return make_scene(read_trace(run.write(folder / "made.json")))


SHAPES = [
    {"load_us": 3000.0},
    {"copy_us": 1500.0},
    {"sync": True},
    {"reduce_us": 2000.0},
    {"malloc_us": 300.0},
    {"kernels": 150, "kernel_us": 3.0, "gap_us": 20.0},
    {"optimizer_kernels": 100},
    {"load_us": 1000.0, "copy_us": 500.0, "sync": True, "reduce_us": 700.0, "malloc_us": 50.0},
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(shape))
def test_parts_sum_to_the_step(shape: dict[str, float], tmp_path: Path) -> None:
    parts = take_apart(scene(training(**shape), tmp_path))  # type: ignore[arg-type]
    assert sum(parts.parts_s.values()) == pytest.approx(parts.step_s, rel=1e-9)
    assert min(parts.parts_s.values()) >= 0.0


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(shape))
def test_an_unchanged_replay_takes_as_long_as_the_run(shape: dict[str, float], tmp_path: Path) -> None:
    recording = record(scene(training(**shape), tmp_path))  # type: ignore[arg-type]
    assert recording is not None
    assert recording.seconds(Change()) == pytest.approx(recording.recorded_s, rel=0.03)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(shape))
def test_less_of_anything_is_never_slower(shape: dict[str, float], tmp_path: Path) -> None:
    made = scene(training(**shape), tmp_path)  # type: ignore[arg-type]
    recording = record(made)
    assert recording is not None
    now = recording.seconds(Change())
    halves = recording.factors(made.kernels, 0.5)
    for change in (Change(loading=0.5), Change(host=0.5), Change(waiting=False), Change(allocating=0.0), Change(work=halves)):
        assert recording.seconds(change) <= now * 1.0001


def test_a_replay_keeps_what_a_launch_takes_to_reach_the_device(tmp_path: Path) -> None:
    """A host that waits for each of its kernels pays for the way there every time."""
    host = Host()
    for number in range(5):
        with host.step(f"ProfilerStep#{number + 1}"):
            for _ in range(100):
                host.launch(HGEMM, 20.0)
                host.wait("cudaStreamSynchronize")
    recording = record(scene(host, tmp_path))
    assert recording is not None
    assert recording.latency_ns > 0
    assert recording.seconds(Change()) == pytest.approx(recording.recorded_s, rel=0.05)


def test_a_replay_without_loading_ends_at_the_next_limit(tmp_path: Path) -> None:
    made = scene(training(load_us=10_000.0, kernels=20, kernel_us=500.0), tmp_path)
    recording = record(made)
    assert recording is not None
    busy_s = 20 * 500e-6
    assert recording.seconds(Change(loading=0.0)) == pytest.approx(busy_s, rel=0.05)


def test_what_waits_on_another_stream_is_replayed_as_waiting(tmp_path: Path) -> None:
    run = Run()
    for step in range(4):
        begin = run.host_us
        run.launch(HGEMM, 1000.0)
        run.free_us[20] = run.free_us[7]
        end = run.launch(ALL_REDUCE, 2000.0, stream=20)
        run.free_us[7] = end
        run.launch(HGEMM, 1000.0)
        run.host_us = max(run.free_us.values()) - 50.0
        run.mark(f"ProfilerStep#{step}", begin, run.host_us)
    made = scene(run, tmp_path)
    recording = record(made)
    assert recording is not None
    reduced = recording.factors(made.is_class("communication"), 0.0)
    assert (recording.duration_ns * reduced).sum() < recording.duration_ns.sum()
    assert any(number >= 0 for number in recording.depends)


def test_steps_come_from_marks_then_loader_then_optimizer(tmp_path: Path) -> None:
    assert scene(training(), tmp_path).steps.by == "profiler"
    assert scene(training(marks=False, load_us=100.0), tmp_path).steps.by == "loader"
    assert scene(training(marks=False), tmp_path).steps.by == "optimizer"
    repeating, bare = Run(), Run()
    for _ in range(6):
        for name in (RELU, HGEMM, HGEMM, SGEMM, HGEMM):
            repeating.launch(name, 100.0)
    found = scene(repeating, tmp_path).steps
    assert found.by == "kernels"
    assert found.median_s == pytest.approx(500e-6, rel=0.02)
    for _ in range(50):
        bare.launch(HGEMM, 10.0)
    assert scene(bare, tmp_path).steps.by == "span"


def test_a_long_first_step_is_warm_up_and_a_short_last_one_is_cut(tmp_path: Path) -> None:
    run = training(steps=1, kernels=80)
    training(run, steps=4, numbers=2)
    training(run, steps=1, kernels=2, numbers=6)
    steps = scene(run, tmp_path).steps
    assert steps.steady.tolist() == [False, True, True, True, True, False]
    assert steps.median_s == pytest.approx(0.0101, rel=0.05)
    assert len(steps.notes) == 2


def test_nested_steps_count_once(tmp_path: Path) -> None:
    run = training(steps=4)
    for event in [event for event in run.events if event["name"].startswith("ProfilerStep")]:
        run.events.append({**event, "ts": event["ts"] + 1.0, "dur": event["dur"] - 2.0})
    assert len(scene(run, tmp_path).steps.start_ns) == 4


def test_hidden_communication_is_no_part(tmp_path: Path) -> None:
    run = Run()
    for step in range(3):
        begin = run.host_us
        run.launch(ALL_REDUCE, 2000.0, stream=20)
        for _ in range(6):
            run.launch(HGEMM, 500.0)
        run.host_us = max(run.free_us.values())
        run.mark(f"ProfilerStep#{step}", begin, run.host_us)
    parts = take_apart(scene(run, tmp_path))
    assert parts.hidden_communication_s == pytest.approx(0.002, rel=0.05)
    assert parts.parts_s["communication"] < 1e-4


def test_the_busiest_device_is_looked_at(tmp_path: Path) -> None:
    run = training()
    for event in run.events:
        if event["args"].get("device") == 0:
            event["args"]["device"] = 3
    run.events.append(
        {
            "ph": "X",
            "cat": "kernel",
            "name": "x",
            "pid": 0,
            "tid": 7,
            "ts": run.begin_us,
            "dur": 5,
            "args": {"device": 0, "stream": 7},
        }
    )
    made = scene(run, tmp_path)
    assert made.device.index == 3
    assert set(np.unique(made.work.device)) == {3}


def test_without_a_gpu_the_innermost_ops_are_the_work(tmp_path: Path) -> None:
    run = Run()
    for step in range(4):
        begin = run.host_us
        run.op("aten::linear", 1000.0)
        run.think(10.0)
        run.op("aten::addmm", 900.0)
        run.think(1490.0)
        run.mark(f"ProfilerStep#{step}", begin, run.host_us)
    view = make_view(scene(run, tmp_path), None)
    assert view.scene.on_cpu
    assert {view.scene.trace.names[number] for number in view.scene.work.name} == {"aten::addmm"}
    assert view.facts.busy_fraction == pytest.approx(900 / 1500, rel=0.01)


@pytest.mark.parametrize(("between", "lost_us"), [("", 8300.0), ("aten::mm", 3300.0)])
def test_making_the_values_of_an_unbind_belongs_to_reading_them(tmp_path: Path, between: str, lost_us: float) -> None:
    run = Run()
    for step in range(4):
        begin = run.host_us
        run.op("aten::unbind", 3000.0)
        run.think(3000.0)
        if between:
            run.op(between, 4900.0)
        run.think(5000.0)
        for _ in range(20):
            run.op("aten::item", 5.0)
            run.think(15.0)
        run.op("aten::addmm", 2000.0)
        run.think(2000.0)
        run.mark(f"ProfilerStep#{step}", begin, run.host_us)
    found = host_sync.check(make_view(scene(run, tmp_path), None))
    assert found is not None
    assert found.seconds_per_step * 1e6 == pytest.approx(lost_us, rel=0.02)


def test_what_a_launch_takes_is_read_from_kernels_that_found_the_device_free(tmp_path: Path) -> None:
    """Half of the kernels start 8 µs after their launch, the others wait for them in the queue."""
    run = Run()
    for _ in range(20):
        run.launch(HGEMM, 500.0)
        run.launch(RELU, 500.0)
        run.host_us = max(run.free_us.values())
    assert launch_latency_ns(scene(run, tmp_path)) == 8_000
