"""PyTorch's memory snapshots: sums that are known, and pickles that are not plain data."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

import gpuwise
from gpuwise.core.errors import BadFile
from gpuwise.trace.plain_pickle import read_plain
from gpuwise.trace.readers.memory_snapshot import BEFORE, NO_STACK, read_memory_snapshot
from making_files import MIB, pickled, snapshot


def test_sums_of_a_snapshot_are_those_it_was_made_with(tmp_path: Path) -> None:
    (device,) = read_memory_snapshot(pickled(tmp_path / "f", snapshot())).devices
    assert (device.allocated_bytes, device.reserved_bytes) == (100 * MIB, 170 * MIB)
    assert (device.split_bytes, device.cached_bytes, device.largest_free_bytes) == (50 * MIB, 20 * MIB, 30 * MIB)
    assert (device.peak_allocated_bytes, device.peak_reserved_bytes) == (130 * MIB, 234 * MIB)
    assert device.driver_calls == 2


def test_memory_is_charged_to_the_program_and_not_to_pytorch(tmp_path: Path) -> None:
    (device,) = read_memory_snapshot(pickled(tmp_path / "f", snapshot())).devices
    held = {one.where: one.size_bytes // MIB for one in device.holders}
    assert held == {"/src/model.py:10 forward": 60, "/src/train.py:20 step": 40}
    at_peak = {one.where: one.size_bytes // MIB for one in device.peak_holders}
    assert at_peak == held | {"/src/train.py:30 loss": 30}


def test_what_was_allocated_before_the_recording_counts_at_the_peak(tmp_path: Path) -> None:
    made = snapshot()
    old = {"action": "free_requested", "addr": 0x99, "size": 7 * MIB, "stream": 0, "frames": []}
    made["device_traces"][0].append(old)
    (device,) = read_memory_snapshot(pickled(tmp_path / "f", made)).devices
    assert device.peak_allocated_bytes == 137 * MIB
    assert {one.where: one.size_bytes for one in device.peak_holders}[BEFORE] == 7 * MIB


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_gives_the_same_values(protocol: int) -> None:
    value = {"a": [1, -5, 300, 70_000, 2**40, -(2**40), 2.5, None, True, False, "é" * 300, ("x",), (), {3: (1, 2, 3, 4)}]}
    assert read_plain(pickle.dumps(value, protocol=protocol), "f") == value


def test_the_answer_names_fragmentation_and_the_holder(tmp_path: Path) -> None:
    answer = gpuwise.why([str(pickled(tmp_path / "snapshot.pickle", snapshot()))])
    found = answer.to_dict()
    assert [one["code"] for one in found["findings"]] == ["memory_fragmented", "memory_held"]
    assert found["memory"]["fragmentation_fraction"] == pytest.approx(50 / 170)
    assert found["step_s"] is None
    assert "/src/model.py:10 forward" in str(answer)
    json.dumps(found, allow_nan=False)


def test_a_failed_request_that_would_fit_into_the_pieces_is_called_fragmentation(tmp_path: Path) -> None:
    answer = gpuwise.why([str(pickled(tmp_path / "snapshot.pickle", snapshot(oom=True)))])
    assert "41.9 MB was requested while 10.5 MB was free" in answer.to_dict()["verdict"]
    assert "fragmentation is the cause" in answer.to_dict()["verdict"]
    assert answer.to_dict()["findings"][0]["code"] == "out_of_memory"


def test_a_snapshot_without_history_or_stacks_says_so(tmp_path: Path) -> None:
    answer = gpuwise.why([str(pickled(tmp_path / "snapshot.pickle", snapshot(history=False, stacks=False)))])
    assert answer.to_dict()["memory"]["peak_allocated_bytes"] == 100 * MIB
    assert answer.to_dict()["memory"]["holders"][0]["where"] == NO_STACK
    assert "no history was recorded" in str(answer)


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/gpuwise-was-here",)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_that_would_run_code_is_refused_and_runs_nothing(protocol: int, tmp_path: Path) -> None:
    path = pickled(tmp_path / "f", {"segments": [_Evil()]}, protocol)
    with pytest.raises(BadFile, match="would run code"):
        gpuwise.why([str(path)])
    assert not Path("/tmp/gpuwise-was-here").exists()  # noqa: S108


@pytest.mark.parametrize(
    "raw",
    [
        b"\x80\x04}\x8c\x08segments" + b"(" * 100_000 + b".",
        b"\x80\x02}X\x08\x00\x00\x00segments]r\xff\xff\xff\xffs.",  # a memo of four thousand million places
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7fsegments",
        b"\x80\x04\x8b\xff\xff\xff\x7fsegments",
        b"\x80\x04}" + b"\x85" * 50 + b"segments.",
        b"\x80\x04}\x8c\x08segments" + b")" + b"\x85" * 100_000 + b"Nds.",
        pickle.dumps(snapshot())[:-200],
    ],
)
def test_a_damaged_or_hostile_pickle_is_refused(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "f.pickle").write_bytes(raw)
    with pytest.raises(BadFile):
        gpuwise.why([str(tmp_path / "f.pickle")])


def test_a_snapshot_with_nothing_in_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="without any segment"):
        gpuwise.why([str(pickled(tmp_path / "f.pickle", {"segments": [], "device_traces": []}))])
