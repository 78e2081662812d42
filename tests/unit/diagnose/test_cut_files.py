"""A file that ends early says so first, and findings rest on whole steps alone."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.core.errors import BadFile
from gpuwise.questions.why.text import render_html, render_markdown
from gpuwise.surfaces.cli.app import app
from making_traces import Run, message, nsys, training, xplane

ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime")


def as_written(run: Run) -> list[dict[str, Any]]:
    """The events as Kineto writes them: the host's marks first, then what ran on the GPU with its calls."""
    return sorted(run.events, key=lambda event: event["cat"] in ON_GPU)


def file_of(run: Run, path: Path, kept: float, *, packed: bool = False) -> Path:
    """A file with only the first part of its bytes."""
    text = json.dumps({**run.document(), "traceEvents": as_written(run)}, indent=1).encode()
    text = gzip.compress(text) if packed else text
    path.write_bytes(text[: int(len(text) * kept)])
    return path


def starved() -> Run:
    return training(steps=8, load_us=6000.0)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kept", [0.8, 0.9, 0.99])
def test_only_whole_steps_count_and_the_cut_is_said_first(packed: bool, kept: float, tmp_path: Path) -> None:
    whole = gpuwise.why([str(starved().write(tmp_path / "whole.json"))])
    path = file_of(starved(), tmp_path / "cut.json", kept, packed=packed)
    answer = gpuwise.why([str(path)])
    told = answer.to_dict()
    assert answer.verdict.startswith("the file is cut off")
    (cut,) = told["cut"]
    assert cut["file"] == "cut.json"
    assert cut["whole_steps"] + cut["lost_steps"] == 8
    assert cut["lost_steps"] >= 1
    assert told["steps"]["count"] == cut["whole_steps"]
    assert answer.findings[0].code == whole.findings[0].code
    assert answer.findings[0].share_fraction == pytest.approx(whole.findings[0].share_fraction, abs=0.02)
    assert told["busy_fraction"] == pytest.approx(whole.to_dict()["busy_fraction"], abs=0.03)
    text = CliRunner().invoke(app, ["why", str(path)]).output
    assert "cut off" in text.splitlines()[0]
    assert text.split("\n\n")[1].startswith("cut.json is cut off in the middle of")
    assert "is cut off" in render_markdown(answer).splitlines()[0]
    assert "<h1>the file is cut off" in render_html(answer)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kept", [0.02, 0.1, 0.5])
def test_without_two_whole_steps_it_is_an_error_that_says_so(packed: bool, kept: float, tmp_path: Path) -> None:
    run = training(steps=2, load_us=6000.0)
    for _ in range(200):
        run.mark("aten::empty", 0.0, 1.0)
    with pytest.raises(BadFile, match="is cut off") as fault:
        gpuwise.why([str(file_of(run, tmp_path / "cut.json", kept, packed=packed))])
    assert fault.value.looked_in
    assert "copy the file again" in fault.value.hint


def test_a_cut_before_the_events_is_no_other_kind_of_file(tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_text('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "na', encoding="utf-8")
    with pytest.raises(BadFile, match="cut off in the middle of its JSON: it contains no event"):
        gpuwise.why([str(tmp_path / "cut.json")])
    (tmp_path / "other.json").write_text('{"schemaVersion": 1}', encoding="utf-8")
    with pytest.raises(BadFile, match="contains no traceEvents"):
        gpuwise.why([str(tmp_path / "other.json")])


def test_a_gzip_file_of_a_few_bytes_is_cut_and_not_something_else(tmp_path: Path) -> None:
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(b'{"traceEvents": []}')[:12])
    with pytest.raises(BadFile, match="cut off in the middle of its gzip data"):
        gpuwise.why([str(tmp_path / "cut.json.gz")])


def test_a_cut_behind_the_events_leaves_no_step_out(tmp_path: Path) -> None:
    text = starved().write(tmp_path / "cut.json").read_text(encoding="utf-8")
    (tmp_path / "cut.json").write_text(text[: text.rindex("]") + 12], encoding="utf-8")
    (cut,) = gpuwise.why([str(tmp_path / "cut.json")]).to_dict()["cut"]
    assert (cut["where"], cut["whole_steps"], cut["lost_steps"]) == ("after its events", 8, 0)


def test_a_whole_file_is_not_called_cut(tmp_path: Path) -> None:
    for name in ("whole.json", "whole.json.gz"):
        answer = gpuwise.why([str(starved().write(tmp_path / name))])
        assert answer.to_dict()["cut"] == []
        assert "cut off" not in answer.verdict


def test_steps_lost_in_the_middle_leave_the_longest_row(tmp_path: Path) -> None:
    run = training(steps=10, load_us=6000.0)
    calls = [event for event in run.events if event["cat"] in ON_GPU]
    gone = {id(event) for event in calls[len(calls) // 4 : len(calls) // 4 + 10]}
    run.events = [event for event in run.events if id(event) not in gone]
    (cut,) = gpuwise.why([str(file_of(run, tmp_path / "cut.json", 0.97))]).cut
    assert (cut.whole_steps, cut.lost_steps) == (5, 5), "step 3 has a hole, 4 may run what it lacks, 10 is at the cut: 5 to 9"


def test_a_run_on_a_cpu_is_answered_only_where_the_file_says_that_there_was_no_gpu(tmp_path: Path) -> None:
    run = Run()
    for step in range(6):
        begin = run.host_us
        for _ in range(10):
            run.op("aten::addmm", 90.0)
            run.think(100.0)
        run.mark(f"ProfilerStep#{step}", begin, run.host_us)
    document = {"deviceProperties": [], "traceEvents": run.events}
    text = json.dumps(document, indent=1)
    (tmp_path / "cut.json").write_text(text[: int(len(text) * 0.9)], encoding="utf-8")
    assert gpuwise.why([str(tmp_path / "cut.json")]).view.scene.on_cpu
    text = json.dumps({"traceEvents": run.events}, indent=1)
    (tmp_path / "cut.json").write_text(text[: int(len(text) * 0.9)], encoding="utf-8")
    with pytest.raises(BadFile, match="it contains no GPU kernels"):
        gpuwise.why([str(tmp_path / "cut.json")])


def test_a_cut_rank_is_skipped_or_said(tmp_path: Path) -> None:
    for rank in range(3):
        run = training(Run(rank=rank, world_size=3), steps=6, reduce_us=500.0)
        file_of(run, tmp_path / f"rank{rank}.json", 0.3 if rank == 1 else 0.9 if rank == 2 else 1.0)
    answer = gpuwise.why([str(tmp_path)])
    assert answer.missing == (1,)
    assert any("rank1.json' is cut off" in note for note in answer.notes)
    assert [one.file for one in answer.cut] == ["rank2.json"]
    assert answer.verdict.startswith("rank2.json is cut off")


def test_an_xplane_without_its_first_plane_ends_early(tmp_path: Path) -> None:
    (tmp_path / "cut.pb").write_bytes(message((1, message((2, "/device:GPU:0"), (3, b"x" * 100))))[:60])
    with pytest.raises(BadFile, match="its first plane is incomplete"):
        gpuwise.why([str(tmp_path / "cut.pb")])
    (tmp_path / "cut.pb").write_bytes((xplane() + message((1, message((2, "/host:CPU"), (3, b"x" * 100)))))[:-50])
    assert gpuwise.why([str(tmp_path / "cut.pb")]).verdict.startswith("the file is cut off")
    copies = message((2, "Stream #1"), (4, message((1, 1), (2, 0), (3, 5_000_000))))
    name = message((1, 1), (2, message((1, 1), (2, "MemcpyH2D"))))
    first = message((1, message((2, "/device:GPU:0"), (3, copies), (4, name))))
    (tmp_path / "cut.pb").write_bytes((first + message((1, message((2, "/device:GPU:1"), (3, b"x" * 100)))))[:-50])
    with pytest.raises(BadFile, match="it contains no GPU kernels"):
        gpuwise.why([str(tmp_path / "cut.pb")])


@pytest.mark.parametrize("kept", [0.001, 0.1, 0.5, 0.99])
def test_a_cut_database_says_how_much_is_there(kept: float, tmp_path: Path) -> None:
    raw = nsys(tmp_path / "cut.sqlite").read_bytes()
    (tmp_path / "cut.sqlite").write_bytes(raw[: int(len(raw) * kept)])
    with pytest.raises(BadFile, match="is cut off in the middle of its tables"):
        gpuwise.why([str(tmp_path / "cut.sqlite")])


def test_the_table_of_many_runs_marks_a_cut_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_CACHE", str(tmp_path / "cache"))
    file_of(starved(), tmp_path / "cut.json", 0.9)
    starved().write(tmp_path / "whole.json")
    answer = gpuwise.why([str(tmp_path / "cut.json"), str(tmp_path / "whole.json")], each="file")
    jobs = {Path(job.job).name: job.cut for job in answer.jobs}
    assert jobs == {"cut.json": True, "whole.json": False}


def test_a_model_that_was_named_is_not_asked_for_again(tmp_path: Path) -> None:
    run = Run()
    for step in range(4):
        begin = run.host_us
        run.op("aten::addmm", 900.0)
        run.think(1000.0)
        run.mark(f"ProfilerStep#{step}", begin, run.host_us)
    path = str(run.write(tmp_path / "cpu.json"))
    (told,) = [entry for entry in gpuwise.why([path], model="resnet18").abstained if entry.code == "slower_than_expected"]
    assert "resnet18 cannot be compared" in told.reason
    assert "name the model" not in told.record_next
    unknown = training(Run(gpu={"id": 0, "name": "Nobody's card"}))
    path = str(unknown.write(tmp_path / "gpu.json"))
    (told,) = [entry for entry in gpuwise.why([path], model="resnet18").abstained if entry.code == "slower_than_expected"]
    assert told.record_next == "name it with --gpu"
