"""`xplane.pb` and Nsight Systems exports."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from gpuwise.core.errors import BadFile
from gpuwise.trace.protobuf import as_text
from gpuwise.trace.read import read_trace
from gpuwise.trace.types import Kind
from making_traces import message, nsys, xplane


def test_xplane_gives_kernels_copies_and_steps(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(xplane(kernels=10, kernel_us=100, gap_us=50))
    trace = read_trace(tmp_path / "f")
    kernels = trace.events.of(Kind.KERNEL)
    assert len(kernels) == 10
    assert set(kernels.duration_ns) == {100_000}
    assert kernels.start_ns[1] - kernels.start_ns[0] == 150_000
    assert len(trace.events.of(Kind.STEP)) == 1
    copies = trace.events.of(Kind.MEMCPY)
    assert copies.size_bytes.tolist() == [4096]
    assert trace.names[copies.name[0]] == "Memcpy HtoD"
    assert trace.devices[0].sm_count == 108


def test_ops_of_a_device_without_streams_are_its_kernels(tmp_path: Path) -> None:
    line = message((2, "XLA Ops"), (4, message((1, 1), (2, 0), (3, 5_000_000))))
    name = message((1, 1), (2, message((1, 1), (2, "fusion"))))
    (tmp_path / "f").write_bytes(message((1, message((2, "/device:TPU:0"), (3, line), (4, name)))))
    assert len(read_trace(tmp_path / "f").events.of(Kind.KERNEL)) == 1


def test_cut_xplane_keeps_whole_planes(tmp_path: Path) -> None:
    raw = xplane() + message((1, message((2, "/device:GPU:1"), (3, b"x" * 100))))
    (tmp_path / "f").write_bytes(raw[:-50])
    trace = read_trace(tmp_path / "f")
    assert len(trace.events.of(Kind.KERNEL)) == 10
    assert trace.cut is not None
    assert not trace.cut.ragged
    assert "middle of a plane" in trace.cut.where
    assert trace.cut.read_fraction == pytest.approx((len(raw) - 50) / len(raw))


def test_nsys_gives_kernels_copies_and_calls(tmp_path: Path) -> None:
    trace = read_trace(nsys(tmp_path / "f.sqlite", kernels=5))
    kernels, calls = trace.events.of(Kind.KERNEL), trace.events.of(Kind.RUNTIME)
    assert len(kernels) == 5
    assert set(kernels.correlation) == set(calls.correlation)
    assert trace.names[calls.name[0]] == "cudaLaunchKernel"
    copies = trace.events.of(Kind.MEMCPY)
    assert trace.names[copies.name[0]] == "Memcpy HtoD (Pageable -> Device)"
    assert (copies.size_bytes.tolist(), copies.duration_ns.tolist()) == ([1_000_000], [50_000])


def test_rows_that_end_before_they_start_are_counted(tmp_path: Path) -> None:
    path = nsys(tmp_path / "f.sqlite", kernels=5)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1 WHERE correlationId = 2")
    trace = read_trace(path)
    assert len(trace.events.of(Kind.KERNEL)) == 4
    assert trace.losses[0].count == 1


def test_another_database_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "f.sqlite") as database:
        database.execute("CREATE TABLE people (name TEXT)")
    with pytest.raises(BadFile, match="no tables of Nsight Systems, rocprofv3 or rocmProfileData"):
        read_trace(tmp_path / "f.sqlite")


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    path = nsys(tmp_path / "f.sqlite")
    raw = bytearray(path.read_bytes())
    raw[100:4000] = b"\xff" * 3900
    path.write_bytes(raw)
    with pytest.raises(BadFile):
        read_trace(path)


def test_reading_leaves_the_database_alone(tmp_path: Path) -> None:
    path = nsys(tmp_path / "f.sqlite")
    before = path.read_bytes()
    read_trace(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["f.sqlite"]


def test_ids_of_two_processes_are_told_apart(tmp_path: Path) -> None:
    path = nsys(tmp_path / "f.sqlite", kernels=3)
    other = 9 << 24
    with sqlite3.connect(path) as database:
        database.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT start, end, deviceId, streamId, correlationId, ?, demangledName, "
            "shortName, gridX, gridY, gridZ FROM CUPTI_ACTIVITY_KIND_KERNEL",
            (other,),
        )
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (5, 6, 0, ?, 2)", (other + 3,))
    trace = read_trace(path)
    kernels, calls = trace.events.of(Kind.KERNEL), trace.events.of(Kind.RUNTIME)
    assert len(set(kernels.correlation.tolist())) == 6
    own = kernels.correlation[kernels.process == calls.process[calls.start_ns == 5][0]]
    assert calls.correlation[calls.start_ns == 5][0] in own


def test_blocks_of_a_grid_are_counted_in_all_three_directions(tmp_path: Path) -> None:
    """Without a count of multiprocessors they are kept as a negative number."""
    path = nsys(tmp_path / "f.sqlite", kernels=2)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = 3, gridY = 5, gridZ = 7 WHERE correlationId = 0")
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = 11, gridY = 1, gridZ = 1 WHERE correlationId = 1")
    assert read_trace(path).events.of(Kind.KERNEL).blocks_per_sm.tolist() == [-105.0, -11.0]


@pytest.mark.parametrize(
    ("picoseconds", "nanoseconds"), [(0, 0), (499, 0), (500, 1), (1_499, 1), (1_500, 2), (7_000_000_999_999, 7_000_001_000)]
)
def test_times_of_xplane_begin_at_their_line_and_are_rounded(picoseconds: int, nanoseconds: int, tmp_path: Path) -> None:
    name = message((1, 1), (2, message((1, 1), (2, "fusion"))))
    lines = [
        message((2, title), (3, start), (4, message((1, 1), (2, picoseconds), (3, picoseconds))))
        for title, start in (("Stream #1(Compute)", 1_000), ("Stream #2(Compute)", 1_700_000_000_000_000_000))
    ]
    (tmp_path / "f").write_bytes(message((1, message((2, "/device:GPU:0"), *((3, line) for line in lines), (4, name)))))
    events = read_trace(tmp_path / "f").events
    assert events.start_ns.tolist() == [1_000 + nanoseconds, 1_700_000_000_000_000_000 + nanoseconds]
    assert events.duration_ns.tolist() == [nanoseconds] * 2


def test_ranges_that_are_pushed_or_started_are_marks_and_other_events_are_not(tmp_path: Path) -> None:
    path = nsys(tmp_path / "f.sqlite", kernels=2)
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, globalTid INTEGER, text TEXT)")
        rows = [(10, 20, kind, 7 << 24, f"kind {kind}") for kind in (34, 59, 60, 75)]
        database.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?)", rows)
    trace = read_trace(path)
    assert sorted(trace.names[name] for name in trace.events.of(Kind.MARK).name) == ["kind 59", "kind 60"]


def test_no_name_of_an_xplane_file_can_act_on_the_terminal() -> None:
    assert as_text(memoryview(b"gemm\x1b[31m_fusion\r")) == "gemm?[31m_fusion?"
