"""The timeline of one step: every cause of idle time is drawn where it is, whatever causes there are."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from pathlib import Path

import numpy as np
import pytest

import gpuwise
from gpuwise.diagnose.intervals import Spans, union
from gpuwise.diagnose.timeline import Lane, Timeline, timeline
from gpuwise.questions.common.diagnosis import WhyAnswer
from gpuwise.questions.why.text import render_html
from gpuwise.questions.why.timeline_html import POLICY, timeline_html
from making_traces import Run, training


def answered(folder: Path) -> WhyAnswer:
    return gpuwise.why([str(training(load_us=6000.0, workers=False).write(folder / "made.json"))])


def lane(line: Timeline | None, name: str) -> Lane:
    assert line is not None
    return next(lane for lane in line.lanes if lane.name == name)


def test_idle_time_is_drawn_with_its_causes_and_fills_what_kernels_leave(tmp_path: Path) -> None:
    view = answered(tmp_path).view
    line = timeline(view.scene, view.parts.idle)
    idle, kernels = lane(line, "GPU: idle"), lane(line, "GPU: kernels")
    assert line is not None
    assert max(idle.spans, key=lambda span: span.seconds).kind == "input_wait"
    assert sum(span.seconds for span in (*idle.spans, *kernels.spans)) == pytest.approx(line.step_s, rel=0.02)


def test_a_cause_that_nobody_knows_yet_is_drawn_too(tmp_path: Path) -> None:
    scene = answered(tmp_path).view.scene
    begin = int(scene.steps.start_ns[2])
    spans: Spans = union(np.array([begin]), np.array([begin + 10_000_000_000]))
    assert {span.kind for span in lane(timeline(scene, {"new_cause": spans}), "GPU: idle").spans} == {"new_cause"}


def test_a_finer_timeline_keeps_more_spans_apart(tmp_path: Path) -> None:
    run = training(Run(), kernels=3000, kernel_us=20.0, gap_us=30.0, steps=3)
    view = gpuwise.why([str(run.write(tmp_path / "made.json"))]).view
    coarse, fine = (lane(timeline(view.scene, {}, finer), "GPU: kernels") for finer in (1, 5))
    assert len(coarse.spans) <= 300 < len(fine.spans) <= 1500


def test_the_page_runs_its_own_script_only_and_asks_for_nothing(tmp_path: Path) -> None:
    page = render_html(answered(tmp_path))
    (script,) = re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)
    assert b64encode(hashlib.sha256(script.encode()).digest()).decode() in POLICY
    assert POLICY in page
    assert not re.search(r"(src|href)=|url\(|@import|\son\w+=", page)


@pytest.mark.parametrize("step_s", [3e-6, 4.7e-4, 0.0158, 0.176, 2.3, 70.0])
def test_the_axis_has_a_few_round_times_before_any_script_runs(step_s: float) -> None:
    page = timeline_html(Timeline(step_s=step_s, joined=0, lanes=(Lane(name="GPU: kernels", spans=()),)))
    marks = re.findall(r"<text[^>]*>([^<]*)</text>", page)
    assert marks[0] == "0"
    assert 2 <= len(marks) <= 6
