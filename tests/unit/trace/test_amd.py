"""Traces of AMD's profilers: rocprofv3's JSON and database, and rocmProfileData's database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

import gpuwise
from gpuwise.core.errors import BadFile
from gpuwise.trace.read import read_trace
from gpuwise.trace.types import Kind
from making_amd import KERNEL, rocpd, rocprof, rpd

ALL = pytest.mark.parametrize("make", [rocprof, rocpd, rpd])
Maker = Callable[[Path, int], Path]


@ALL
def test_kernels_copies_calls_and_marks_are_read(make: Maker, tmp_path: Path) -> None:
    trace = read_trace(make(tmp_path / "f", 30))
    kernels, calls, marks = (trace.events.of(kind) for kind in (Kind.KERNEL, Kind.RUNTIME, Kind.MARK))
    assert (len(kernels), len(calls)) == (30, 30)
    assert set(kernels.duration_ns) == {400_000}
    assert {trace.names[name] for name in kernels.name} == {KERNEL}
    assert {trace.names[name] for name in calls.name} == {"hipLaunchKernel"}
    assert set(kernels.correlation) == set(calls.correlation)
    assert [trace.names[name] for name in trace.events.of(Kind.MEMCPY).name] == ["Memcpy HtoD"]
    assert [trace.names[name] for name in marks.name] == ["optimizer"]


@ALL
def test_the_share_of_busy_time_is_that_of_the_kernels(make: Maker, tmp_path: Path) -> None:
    answer = gpuwise.why([str(make(tmp_path / "f", 60))], gpu="MI210").to_dict()
    assert answer["busy_fraction"] == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("make", [rocprof, rocpd])
def test_the_gpu_of_rocprofv3_is_found_in_the_catalogue(make: Maker, tmp_path: Path) -> None:
    path = make(tmp_path / "f.json", 60)
    assert "MI210" in gpuwise.why([str(path)]).to_dict()["gpu"]
    kernels = read_trace(path).events.of(Kind.KERNEL)
    assert set(kernels.blocks_per_sm.tolist()) == {-200.0}


def test_one_object_in_place_of_a_list_is_read(tmp_path: Path) -> None:
    path = rocprof(tmp_path / "f.json", 5)
    whole = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({"rocprofiler-sdk-tool": whole["rocprofiler-sdk-tool"][0]}), encoding="utf-8")
    assert len(read_trace(path).events.of(Kind.KERNEL)) == 5


def test_records_without_times_are_counted(tmp_path: Path) -> None:
    path = rocprof(tmp_path / "f.json", 5)
    whole = json.loads(path.read_text(encoding="utf-8"))
    whole["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"][0]["end_timestamp"] = "soon"
    path.write_text(json.dumps(whole), encoding="utf-8")
    assert read_trace(path).losses[0].count == 1


@pytest.mark.parametrize("cell", ["'text'", "x'ff00'", "NULL", "1.5", "-1"])
def test_cells_of_another_type_are_survived(cell: str, tmp_path: Path) -> None:
    for column in "gpuId queueId start end description_id opType_id".split():
        path = rpd(tmp_path / f"{column}.rpd", 40)
        with sqlite3.connect(path) as database:
            database.execute(f"UPDATE rocpd_op SET {column} = {cell} WHERE id % 2")  # noqa: S608 (listed above)
        assert gpuwise.why([str(path)], gpu="MI210").to_dict()["verdict"]


@pytest.mark.parametrize("cell", ["'text'", "x'ff00'", "NULL", "1.5", "-1"])
def test_cells_of_another_type_are_survived_in_the_database_of_rocprofv3(cell: str, tmp_path: Path) -> None:
    columns = {
        "kernel_dispatch": "agent_id kernel_id queue_id start end event_id grid_size_x workgroup_size_x",
        "event": "stack_id extdata",
        "region": "tid start end name_id event_id",
        "info_agent": "type type_index product_name extdata",
    }
    for table, names in columns.items():
        for column in names.split():
            path = rocpd(tmp_path / f"{table}{column}.db", 40)
            with sqlite3.connect(path) as database:
                database.execute(f"UPDATE rocpd_{table}_0000aaaa SET {column} = {cell} WHERE id % 2")  # noqa: S608 (listed above)
            assert gpuwise.why([str(path)], gpu="MI210").to_dict()["verdict"]


def test_processes_of_one_database_keep_their_launches_apart(tmp_path: Path) -> None:
    path = rocpd(tmp_path / "f.db", 20)
    trace = read_trace(rocpd(path, 20, ending="_0000bbbb"))
    kernels = trace.events.of(Kind.KERNEL)
    assert len(kernels) == 40
    assert len(set(kernels.correlation)) == 40
    assert set(kernels.process) == {0, 1}


@ALL
def test_a_damaged_file_is_refused(make: Maker, tmp_path: Path) -> None:
    path = make(tmp_path / "f", 30)
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(BadFile):
        gpuwise.why([str(path)])


def test_a_file_without_records_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('{"rocprofiler-sdk-tool": [{"agents": []}]}', encoding="utf-8")
    with pytest.raises(BadFile, match="no events"):
        gpuwise.why([str(tmp_path / "f.json")])
