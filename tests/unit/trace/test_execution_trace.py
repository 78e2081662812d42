"""Execution traces: refused in words where they have no times, read as a timeline where they have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gpuwise
from gpuwise.core.errors import BadFile
from gpuwise.trace.read import read_trace
from gpuwise.trace.types import Kind
from making_traces import chakra, execution_trace


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "content", [json.dumps(execution_trace(12)).encode(), chakra(12, timed=False)], ids=["PyTorch", "Chakra"]
)
def test_a_trace_without_times_says_what_it_holds_and_how_to_record_times(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"12 of them with shapes|12 ops, 12 of them with shapes") as refused:
        gpuwise.why([str(write(tmp_path / "f", content))])
    assert "export_chrome_trace" in refused.value.hint


@pytest.mark.parametrize("content", [json.dumps(execution_trace(40, timed=True)).encode(), chakra(40)], ids=["PyTorch", "Chakra"])
def test_a_trace_with_times_is_a_timeline(content: bytes, tmp_path: Path) -> None:
    path = write(tmp_path / "f", content)
    trace = read_trace(path)
    assert (len(trace.events.of(Kind.KERNEL)), len(trace.events.of(Kind.OP))) == (40, 40)
    assert set(trace.events.of(Kind.KERNEL).duration_ns) == {400_000}
    assert gpuwise.why([str(path)], gpu="V100 SXM 32GB").to_dict()["busy_fraction"] == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(execution_trace(12)).encode()[:-200],
        b'{"schema": "1.1.1", "nodes": [7]}',
        chakra(12, timed=False)[:-30],
        chakra(0),
    ],
)
def test_a_damaged_or_empty_trace_is_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(BadFile):
        gpuwise.why([str(write(tmp_path / "f", content))])
