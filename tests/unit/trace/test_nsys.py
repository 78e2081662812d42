"""Exports and reports of Nsight Systems: CUDA graphs, cells of the wrong type, and reports that only `nsys` can read."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

import gpuwise
from gpuwise.core.errors import BadFile
from gpuwise.trace.read import read_trace
from gpuwise.trace.types import Kind
from making_traces import nsys, with_graphs

CELLS = ["'text'", "x'ff00'", "CAST(x'6bff' AS TEXT)", "NULL", "1.5", "-1", "9223372036854775807", "''"]
COLUMNS = {
    "StringIds": "value",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start end deviceId streamId correlationId globalPid demangledName shortName gridX gridY gridZ",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start end deviceId bytes copyKind srcKind dstKind",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end correlationId globalTid nameId",
}


def test_graphs_count_as_work_of_the_device(tmp_path: Path) -> None:
    path = with_graphs(nsys(tmp_path / "f.sqlite", kernels=4), graphs=6)
    trace = read_trace(path)
    kernels = trace.events.of(Kind.KERNEL)
    assert sum(trace.names[name].startswith("CUDA graph") for name in kernels.name) == 6
    calls = trace.events.of(Kind.RUNTIME)
    graphs = kernels.where(kernels.duration_ns == 1_000_000)
    assert set(graphs.correlation) <= set(calls.correlation)


def test_a_run_of_graphs_alone_is_busy_and_not_idle(tmp_path: Path) -> None:
    path = with_graphs(nsys(tmp_path / "f.sqlite", kernels=0), graphs=40)
    answer = gpuwise.why([str(path)], gpu="V100 SXM 32GB").to_dict()
    assert answer["busy_fraction"] == pytest.approx(1.0 / 1.1, abs=0.02)


def test_graphs_whose_kernels_are_recorded_too_do_not_count_twice(tmp_path: Path) -> None:
    path = with_graphs(nsys(tmp_path / "f.sqlite", kernels=4), graphs=6)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_GRAPH_TRACE SET correlationId = 2 WHERE graphId = 3")
    assert len(read_trace(path).events.of(Kind.KERNEL)) == 4


def test_a_graph_that_begins_on_the_host_belongs_to_the_device_of_its_process(tmp_path: Path) -> None:
    path = with_graphs(nsys(tmp_path / "f.sqlite", kernels=4), graphs=6)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 3")
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_GRAPH_TRACE SET deviceId = 2147483647")
    assert set(read_trace(path).events.of(Kind.KERNEL).device) == {3}


def test_graphs_without_times_are_counted_as_lost(tmp_path: Path) -> None:
    path = with_graphs(nsys(tmp_path / "f.sqlite", kernels=4), graphs=6)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_GRAPH_TRACE SET start = 0, end = 0 WHERE correlationId = 1000")
    trace = read_trace(path)
    assert trace.losses[0].count == 1
    assert len(trace.events.of(Kind.KERNEL)) == 4 + 5


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("table", COLUMNS)
def test_cells_of_another_type_are_survived(table: str, cell: str, tmp_path: Path) -> None:
    for column in COLUMNS[table].split():
        path = nsys(tmp_path / f"{column}.sqlite", kernels=30)
        with sqlite3.connect(path) as database:
            database.execute(f"UPDATE {table} SET {column} = {cell} WHERE rowid % 2")  # noqa: S608 (all three are listed above)
        answer = gpuwise.why([str(path)], gpu="V100 SXM 32GB")
        assert answer.to_dict()["verdict"]
        assert str(answer)


def test_a_report_is_refused_with_the_command_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "my run.nsys-rep").write_bytes(b"\x00\x01 whatever")
    with pytest.raises(BadFile, match="only `nsys` can read") as refused:
        gpuwise.why([str(tmp_path / "my run.nsys-rep")])
    assert "nsys export --type sqlite --output 'my run.sqlite' 'my run.nsys-rep'" in refused.value.hint


def _stand_in(folder: Path, body: str) -> None:
    """A program called `nsys`."""
    program = folder / "nsys"
    program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    program.chmod(0o755)


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_a_report_is_exported_where_nsys_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nsys(tmp_path / "ready.sqlite", kernels=40)
    _stand_in(tmp_path, f'cp {tmp_path}/ready.sqlite "$7"')  # its output follows `export --type sqlite … --output`
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "run.nsys-rep").write_bytes(b"\x00\x01 whatever")
    trace = read_trace(tmp_path / "run.nsys-rep")
    assert len(trace.events.of(Kind.KERNEL)) == 40
    assert (trace.file, trace.format) == ("run.nsys-rep", "nsys report")


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_a_report_that_nsys_cannot_export_is_refused_in_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _stand_in(tmp_path, "echo 'the report is damaged' >&2; exit 3")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "run.nsys-rep").write_bytes(b"\x00\x01 whatever")
    with pytest.raises(BadFile, match="the report is damaged"):
        read_trace(tmp_path / "run.nsys-rep")
