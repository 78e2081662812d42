"""Profiles whose steps or planes take no time, and profiles of the host alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gpuwise
from gpuwise.core.errors import BadFile
from making_traces import Run, message, training, xplane

NAME = message((1, 1), (2, message((1, 1), (2, "MatMul"))))


@pytest.mark.parametrize(
    "steps",
    [
        message((1, 3), (2, 0), (3, 0)),
        message((1, 3), (2, 0)),
        message((1, 3)),
        message((1, 3), (2, 0), (3, 999)),
    ],
)
def test_a_step_without_time_is_no_step(steps: bytes, tmp_path: Path) -> None:
    events = [message((1, 1), (2, place * 150_000_000), (3, 100_000_000)) for place in range(60)]
    stream = message((1, 1), (2, "Stream #1(Compute)"), (3, 1_000), *((4, event) for event in events))
    line = message((1, 2), (2, "Steps"), (3, 1_000), (4, steps))
    (tmp_path / "f.pb").write_bytes(message((1, message((2, "/device:GPU:0"), (3, stream), (3, line), (4, NAME)))))
    answer = gpuwise.why([str(tmp_path / "f.pb")])
    assert answer.to_dict()["busy_fraction"] == pytest.approx(100 / 150, abs=0.01)
    json.dumps(answer.to_dict(), allow_nan=False)


def test_planes_without_any_time_give_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "f.pb").write_bytes(xplane(kernel_us=0, gap_us=0))
    answer = gpuwise.why([str(tmp_path / "f.pb")])
    assert answer.to_dict()["verdict"].startswith("no verdict")
    json.dumps(answer.to_dict(), allow_nan=False)


def test_a_profile_of_the_host_alone_is_refused_with_the_way_to_record_the_device(tmp_path: Path) -> None:
    events = [message((1, 1), (2, place * 10**9), (3, 10**8)) for place in range(5)]
    line = message((2, "python"), (3, 1_000), *((4, event) for event in events))
    (tmp_path / "f.pb").write_bytes(message((1, message((2, "/host:CPU"), (3, line), (4, NAME)))))
    with pytest.raises(BadFile, match="only host events") as refused:
        gpuwise.why([str(tmp_path / "f.pb")])
    assert "device tracing" in refused.value.hint


def test_marks_without_time_are_no_steps(tmp_path: Path) -> None:
    run = training(Run(), marks=False)
    for place in range(3):
        run.mark(f"ProfilerStep#{place}", 100.0, 100.0)
    assert gpuwise.why([str(run.write(tmp_path / "f.json"))]).to_dict()["step_s"] > 0
