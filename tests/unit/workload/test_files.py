"""Workload files: what is written is read back, and what is broken is refused in words."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuwise
from gpuwise.core.errors import BadFile, BadValue, GpuwiseError
from gpuwise.workload.model import evaluate
from gpuwise.workload.model.types import Buffer, Buffers, Call, Calls, Op, TensorSpec, Workload
from gpuwise.workload.store import files


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
        "calls": Calls.of([Call(0, 0, 0, (0, 1), (2,)), Call(1, 0, 1, (2,), (3,))]),
        "modules": ("linear", "relu"),
        "buffers": Buffers.of([Buffer(0, 3, 0, 2), Buffer(1, 0, 0, 2), Buffer(2, 5, 0, 2), Buffer(2, 5, 1, 2)]),
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
        (b"", "not a complete workload file"),
        (b"{}", "not a gpuwise workload"),
        (b"[1, 2]", "not a"),
        (b'{"format": "gpuwise-workload", "version": 99}', "format version 99"),
        (files.encode(tiny())[: len(files.encode(tiny())) // 2], "not a complete workload file"),
        (_changed(calls=[[7, 0, 0, 0]]), "is damaged"),
        (_changed(calls=[[0, 0, 0, 1, 99]]), "is damaged"),
        (_changed(products=[[77]]), "is damaged"),
        (_changed(buffers=[[0, 0, 0, 999]]), "is damaged"),
        (_changed(dims=[[1, 2]]), "is damaged"),
        (_changed(ops="none"), "is damaged"),
        (_changed(model=None), "is damaged"),
        (b"\xff\xfe\x00", "not a complete workload file"),
    ],
)
def test_broken_file_is_refused(data: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_bytes(data)
    with pytest.raises(BadFile) as caught:
        files.read(path)
    assert says in caught.value.message
    assert caught.value.hint


def _op(row: int, **changes: Any) -> bytes:
    """The tiny file with one op changed."""
    whole = json.loads(files.encode(tiny()))
    names = ("kind", "name", "dtype", "sizes", "attrs", "reads", "writes")
    whole["ops"][row] = [changes.get(name, value) for name, value in zip(names, whole["ops"][row], strict=True)]
    return json.dumps(whole).encode()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (_changed(tensors=[["foo", 0], ["fp32", 1], ["fp32", 2]]), "'foo' is not a valid dtype of a tensor"),
        (_op(0, kind="matmul!"), "'matmul!' is not a valid kind of op"),
        (_op(0, sizes=[3]), "a matmul has 1 sizes instead of 4"),
        (_op(0, dtype="fp99"), "'fp99' is not a valid dtype of matmul"),
        (_op(1, kind="conv", sizes=[0] * 6), "a conv has no groups"),
        (_op(1, kind="attention", sizes=[0] * 7, attrs={"causal": True, "pass": "up"}), "'up' is not a valid pass of attention"),
        (_changed(buffers=[]), "a buffer that does not exist"),
        (_changed(buffers=[[0, 3, 0, 2], [1, 0, 0, 2]]), "a buffer that does not exist"),
        (_changed(buffers=[[0, 99, 0, 2]] * 4), "category 99"),
        (_changed(buffers=[[0, -1, 0, 2]] * 4), "category -1"),
        (_changed(buffers=[[0, 0, -1, 2]] * 4), "created outside the step"),
        (_changed(buffers=[[0, 0, 0, -1]] * 4), "created or freed outside the step"),
        (_changed(calls=[[0, 0, 0, -1, 3, 2, 1]]), "a call reads -1 of 3 buffers"),
        (_changed(calls=[[0, 0, 0, 3, 3, 2, 1]]), "read or write different numbers of buffers"),
        (_changed(dims=[[-5, 0, 0, 0], [8, 0, 0, 0], [4, 0, 0, 0]]), "dimension 0 is -5"),
        (_changed(dims=[[1e308, 1e308, 0, 0], [8, 0, 0, 0], [4, 0, 0, 0]]), "dimension 0 is inf"),
        (_changed(dims=[[1, 0], [0, 0], [8, 0], [0, 0], [4, 0], [0, 0]]), "not have four coefficients"),
        (_changed(batch=0), "the batch is 0"),
        (_changed(batch=10**30), "the batch is 1e+30"),
        (_changed(seq=-3), "the sequence is -3"),
        (_changed(symbols=["batch", "seq"]), "symbolic in seq but has no sequence"),
        (_changed(symbols=["foo"]), "must be []"),
        (_changed(parameters=-1), "the number of parameters is -1"),
        (_changed(parameters=10**400), "the number of parameters is 1000000000"),
        (_changed(mode="dance"), "'dance' is not a valid mode"),
        (_changed(precision="\x1b[31mred"), "'\\x1b[31mred' is not a valid precision"),
    ],
)
def test_what_cannot_be_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(BadFile) as caught:
        files.decode(data)
    assert says in caught.value.message
    assert caught.value.message.isprintable()


def test_a_size_that_shrinks_with_the_batch_takes_no_memory_where_it_is_negative(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_bytes(_changed(dims=[[0, 1, 0, 0], [10, -1, 0, 0], [4, 0, 0, 0]]))
    answer = gpuwise.predict(model=str(path), gpu=["RTX 3090"], batch=64).to_dict()
    assert answer["results"][0]["memory"]["total_bytes"] > 0


def test_a_damaged_packed_stream_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.json.gz"
    path.write_bytes(gzip.compress(files.encode(tiny()))[:12] + b"\xff" * 50)
    with pytest.raises(BadFile):
        files.read(path)


def test_text_of_a_file_cannot_act_on_a_terminal() -> None:
    again = files.decode(_changed(model="x\x1b]0;evil\x07\nline", notes=["\u202ebackwards"]))
    assert again.model == r"x\x1b]0;evil\x07\nline"
    assert again.notes == (r"\u202ebackwards",)


def test_lone_surrogates_are_written_out() -> None:
    assert files.decode(files.encode(tiny(modules=("m\udcffx", "relu")))).modules[0] == r"m\udcffx"


def test_a_file_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    whole = json.loads(files.encode(tiny()))
    path.write_text(json.dumps(whole, sort_keys=True, indent=4), encoding="utf-8")
    assert files.is_workload(path)
    path.write_text(json.dumps({"a": "x" * 100} | whole), encoding="utf-8")
    assert files.is_workload(path)
    path.write_text(json.dumps({"model_type": "bert", "note": "gpuwise-workload"}), encoding="utf-8")
    assert not files.is_workload(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "w.json")
    for look in (files.read, files.is_workload):
        with pytest.raises(BadFile, match="not a regular file"):
            look(tmp_path / "w.json")


def test_where_to_write_is_checked_beforehand(tmp_path: Path) -> None:
    files.check_output(tmp_path / "w.json.gz")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(BadValue, match="supported workload file extension"):
        files.check_output(tmp_path / "w.txt")
    for path in (tmp_path / "folder.json", tmp_path / "no" / "w.json"):
        with pytest.raises(BadFile):
            files.check_output(path)


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
