"""`gpuwise why` as a user sees it: answers on stdout, errors with a hint and exit code 2, never a traceback."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuwise.core.errors import GpuwiseError
from gpuwise.questions.common.diagnosis import diagnose
from gpuwise.questions.why import answer as why_answer
from gpuwise.questions.why.options import WhyOptions
from making_traces import Run, training


def why(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuwise", "why", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONUTF8": "1"},
        timeout=120,
        check=False,
    )


def test_json_is_one_object_and_nothing_else(tmp_path: Path) -> None:
    path = training(load_us=4000.0).write(tmp_path / "trace.json.gz")
    done = why(str(path), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert answer["findings"][0]["code"] == "input_starved"
    assert answer["files"] == ["trace.json.gz"]
    assert sum(answer["parts"]["seconds"].values()) == pytest.approx(answer["parts"]["step_s"])


def test_a_trace_without_a_gpu_is_answered(tmp_path: Path) -> None:
    run = Run()
    for step in range(4):
        begin = run.host_us
        run.op("aten::addmm", 900.0)
        run.think(1000.0)
        run.mark(f"ProfilerStep#{step}", begin, run.host_us)
    done = why(str(run.write(tmp_path / "cpu.json")))
    assert done.returncode == 0
    assert "the trace contains no GPU" in done.stdout


@pytest.mark.parametrize(
    ("kernels", "length_us", "tells"), [(1, 1.0, False), (100, 1.0, False), (10, 1e6, False), (100, 1e4, True)]
)
def test_next_to_nothing_without_steps_is_no_basis_for_a_verdict(
    kernels: int, length_us: float, tells: bool, tmp_path: Path
) -> None:
    kernel = {"ph": "X", "dur": length_us, "cat": "kernel", "pid": 0, "tid": 0}
    events = [kernel | {"name": f"k{place}", "ts": place * length_us} for place in range(kernels)]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    found = diagnose([str(tmp_path / "t.json")])
    assert found.verdict.startswith("healthy" if tells else "no verdict, because the recording is too short: ")
    assert ("record at least three complete steps" in found.verdict) is not tells
    assert tells or not found.findings


def test_a_gpu_run_whose_gpu_part_is_lost_is_not_taken_for_a_cpu_run(tmp_path: Path) -> None:
    path = training().write(tmp_path / "trace.json")
    whole = json.loads(path.read_text(encoding="utf-8"))
    on_gpu = ("kernel", "gpu_memcpy", "gpu_memset")
    whole["traceEvents"] = [event for event in whole["traceEvents"] if event.get("cat") not in on_gpu]
    path.write_text(json.dumps(whole), encoding="utf-8")
    done = why(str(path))
    assert done.returncode == 2
    assert "contains no GPU work" in done.stderr
    assert "ProfilerActivity.CUDA" in done.stderr


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        (b'{"traceEvents": []}', [], "contains no event"),
        (b'{"traceEvents": [{"ph": "i", "name": "x", "ts": 1}]}', [], "contains no event"),
        (
            b'{"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "x", "ts": 1, "dur": 2}]}',
            [],
            "neither kernels nor ops",
        ),
        (gzip.compress(b"not a trace", mtime=0), [], "not a profiler trace"),
        (None, [], "not found"),
        (b'{"traceEvents": []}', ["--format", "pdf"], "unknown format 'pdf'"),
    ],
)
def test_what_cannot_be_answered_exits_with_2(content: bytes | None, options: list[str], says: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    if content is not None:
        path.write_bytes(content)
    done = why(str(path), *options)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())  # a long path wraps the line
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_an_unknown_gpu_exits_with_2(tmp_path: Path) -> None:
    done = why(str(training().write(tmp_path / "trace.json")), "--gpu", "h100-pice")
    assert done.returncode == 2
    assert "did you mean" in done.stderr


def test_no_file_at_all_is_a_clear_error() -> None:
    with pytest.raises(GpuwiseError, match="no profiler file"):
        diagnose([])


@pytest.mark.parametrize(("ranks", "compare", "says"), [(1, False, "a file"), (3, False, "3 files"), (1, True, "2 files")])
def test_a_long_read_is_announced_before_it_begins(
    ranks: int, compare: bool, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in range(ranks):
        training(Run(rank=rank, world_size=ranks)).write(tmp_path / f"rank{rank}.json")
    other = training(load_us=4000.0).write(tmp_path.parent / f"{tmp_path.name}.json") if compare else ""
    monkeypatch.setattr(why_answer, "_LONG_BYTES", 1.0)
    told: list[str] = []
    options = WhyOptions([str(tmp_path)], compare=str(other))
    why_answer.answer(options, lambda text, fraction: told.append("read"), announce=told.append)
    assert told[0].startswith(f"reading {says} of ")
    assert told[1:] == ["read"] * (len(told) - 1)
    assert len(told) > 1
