"""Tables of op sums: what they tell, and what they say they cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gpuwise
from gpuwise.core.errors import BadFile
from gpuwise.trace.readers.op_table import read_op_table
from making_files import op_table

BUSY = [("aten::conv2d", 5.0, 60.0, 100), ("aten::relu", 3.0, 20.0, 100), ("cudaDeviceSynchronize", 70.0, 0.0, 3)]
SLOW = [("aten::mul", 90.0, 8.0, 9000), ("aten::add", 60.0, 12.0, 9000)]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def why(path: Path) -> dict[str, Any]:
    answer = gpuwise.why([str(path)])
    assert str(answer)
    found: dict[str, Any] = answer.to_dict()
    json.dumps(found, allow_nan=False)
    return found


def test_times_calls_and_sums_are_read(tmp_path: Path) -> None:
    table = read_op_table(write(tmp_path / "f.txt", "some words before\n" + op_table(BUSY)))
    assert next((row.name, row.self_device_s, row.calls) for row in table.rows) == ("aten::conv2d", pytest.approx(0.06), 100)
    assert (table.cpu_total_s, table.device_total_s) == (pytest.approx(0.078), pytest.approx(0.08))
    assert (table.device, table.lost) == ("CUDA", 0)


def test_a_host_that_waits_is_not_a_host_that_works(tmp_path: Path) -> None:
    answer = why(write(tmp_path / "f.txt", op_table(BUSY)))
    assert answer["ops"]["host_s"] == pytest.approx(0.008)
    assert answer["verdict"].startswith("aten::conv2d takes 75% of the GPU's time")


def test_a_host_that_works_longer_than_the_gpu_is_named(tmp_path: Path) -> None:
    answer = why(write(tmp_path / "f.txt", op_table(SLOW)))
    assert "the host works 7.5 times as long as the GPU" in answer["verdict"]
    assert "aten::add takes 60%" in answer["verdict"]


def test_every_check_that_needs_a_timeline_says_so(tmp_path: Path) -> None:
    abstained = {entry["code"]: entry for entry in why(write(tmp_path / "f.txt", op_table(BUSY)))["abstained"]}
    assert {"launch_bound", "host_sync", "input_starved", "straggler"} <= abstained.keys()
    assert "export_chrome_trace" in abstained["launch_bound"]["record_next"]


def test_the_loader_and_pageable_copies_are_pointed_at(tmp_path: Path) -> None:
    rows = [*BUSY, ("enumerate(DataLoader)#_SingleProcess...", 400.0, 0.0, 5), ("Memcpy HtoD (Pageable -> Device)", 0.0, 10.0, 5)]
    assert [one["code"] for one in why(write(tmp_path / "f.txt", op_table(rows)))["findings"]] == [
        "input_starved",
        "pageable_copies",
    ]


def test_a_table_without_a_gpu_or_without_its_sums_is_answered(tmp_path: Path) -> None:
    answer = why(write(tmp_path / "f.txt", op_table(SLOW, cuda=False, sums=False)))
    assert "no GPU time" in answer["verdict"]
    assert "aten::mul takes 60%" in answer["verdict"]


@pytest.mark.parametrize("cut", [3, 2])
def test_a_table_without_rows_is_refused(cut: int, tmp_path: Path) -> None:
    lines = op_table(BUSY).splitlines()[:cut]
    with pytest.raises(BadFile):
        gpuwise.why([str(write(tmp_path / "f.txt", "\n".join(lines)))])


def test_a_table_that_lost_its_columns_is_refused(tmp_path: Path) -> None:
    squeezed = "\n".join(" ".join(line.split()) for line in op_table(BUSY).splitlines()[1:])
    with pytest.raises(BadFile, match="lacks the usual columns"):
        gpuwise.why([str(write(tmp_path / "f.txt", squeezed))])
