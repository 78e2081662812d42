"""Workload files: what is written is read back, and what is broken is refused in words."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwise.errors import BadFile, BadValue, GpuwiseError
from gpuwise.workload import evaluate, files
from gpuwise.workload.types import Buffer, Call, Op, TensorSpec, Workload


def tiny(**changes: Any) -> Workload:
    """x[batch, 8] @ w[8, 4], then a ReLU: two calls, four buffers."""
    fields: dict[str, Any] = {
        "model": "tiny",
        "source": "test",
        "mode": "infer",
        "precision": "fp32",
        "batch": 2,
        "symbols": ("batch",),
        "parameters": 32,
        "dims": np.array([[0, 1, 0, 0], [8, 0, 0, 0], [4, 0, 0, 0]], dtype=np.float64),
        "products": ((0, 1), (1, 2), (0, 2), (), (0,), (2,), (1,)),
        "tensors": (TensorSpec("fp32", 0), TensorSpec("fp32", 1), TensorSpec("fp32", 2)),
        "ops": (
            Op("matmul", "mm", "fp32", (3, 4, 5, 6), {"trans_a": False, "stride": (1, 1)}, (0, 1), (2,)),
            Op("elementwise", "relu", "fp32", (2,), {}, (2,), (2,)),
        ),
        "calls": (Call(0, 0, 0, (0, 1), (2,)), Call(1, 0, 1, (2,), (3,))),
        "modules": ("linear", "relu"),
        "buffers": (Buffer(0, 3, 0, 2), Buffer(1, 0, 0, 2), Buffer(2, 5, 0, 2), Buffer(2, 5, 1, 2)),
        "notes": ("a note",),
    }
    return Workload(**(fields | changes))


def test_round_trip_keeps_everything(tmp_path: Path) -> None:
    for name in ("w.json", "w.json.gz"):
        files.write(tiny(), tmp_path / name)
        again = files.read(tmp_path / name)
        assert files.encode(again) == files.encode(tiny())
        assert again.calls == tiny().calls
        assert again.buffers == tiny().buffers
        assert again.ops == tiny().ops


def test_work_follows_the_batch() -> None:
    assert evaluate.totals(tiny(), 10).forward_flops == 2 * 10 * 8 * 4
    assert evaluate.peak_memory(tiny(), 10).total_bytes == 4 * (10 * 8 + 8 * 4 + 2 * 10 * 4)


@pytest.mark.parametrize("batch", [0, -1])
def test_a_batch_below_one_is_refused(batch: int) -> None:
    with pytest.raises(BadValue):
        evaluate.totals(tiny(), batch)


def test_a_fixed_workload_answers_at_its_own_size_only() -> None:
    fixed = tiny(symbols=())
    assert evaluate.totals(fixed, 2).forward_flops > 0
    with pytest.raises(BadValue) as caught:
        evaluate.totals(fixed, 3)
    assert "capture it again" in caught.value.hint


def _changed(**changes: Any) -> bytes:
    return json.dumps(json.loads(files.encode(tiny())) | changes).encode()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not a whole workload file"),
        (b"{}", "not a gpuwise workload"),
        (b"[1, 2]", "not a"),
        (b'{"format": "gpuwise-workload", "version": 99}', "format version 99"),
        (files.encode(tiny())[: len(files.encode(tiny())) // 2], "not a whole workload file"),
        (_changed(calls=[[7, 0, 0, 0]]), "is damaged"),
        (_changed(calls=[[0, 0, 0, 1, 99]]), "is damaged"),
        (_changed(products=[[77]]), "is damaged"),
        (_changed(buffers=[[0, 0, 0, 999]]), "is damaged"),
        (_changed(dims=[[1, 2]]), "is damaged"),
        (_changed(ops="none"), "is damaged"),
        (_changed(model=None), "is damaged"),
        (b"\xff\xfe\x00", "not a whole workload file"),
    ],
)
def test_broken_file_is_refused(data: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_bytes(data)
    with pytest.raises(BadFile) as caught:
        files.read(path)
    assert says in caught.value.message
    assert caught.value.hint


def test_missing_cut_or_foreign_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(files.encode(tiny()))[:40])
    for path in (tmp_path / "none.json", tmp_path, tmp_path / "cut.json.gz"):
        with pytest.raises(BadFile):
            files.read(path)


def test_a_folder_without_rights_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(BadFile):
        files.write(tiny(), tmp_path / "no" / "such" / "w.json")
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=200)
@given(position=st.integers(0, 10_000), value=st.integers(0, 255))
def test_a_changed_byte_is_read_or_refused(position: int, value: int) -> None:
    data = bytearray(files.encode(tiny()))
    data[position % len(data)] = value
    problem = None
    try:
        assert files.decode(bytes(data)).model is not None
    except GpuwiseError as error:
        problem = error
    assert problem is None or problem.hint
