"""Files of different runs are refused before all of them are read."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

import gpuwise
from gpuwise.core.errors import BadFile
from gpuwise.questions.common import trace_views
from making_traces import Run, training

HOUR_US = 3_600_000_000.0


def read_by(paths: list[Path]) -> list[str]:
    """The files that were read until the refusal."""
    names: list[str] = []
    read = trace_views.read_trace

    def noted(path: Path, *rest: object) -> object:
        names.append(path.name)
        return read(path, *rest)  # type: ignore[arg-type]

    with patch.object(trace_views, "read_trace", noted), pytest.raises(BadFile, match="not ranks of the same run"):
        gpuwise.why([str(path) for path in paths])
    return names


def test_runs_of_different_days_are_refused_after_two_files(tmp_path: Path) -> None:
    paths = [training(Run(begin_us=1e15 + 2 * day * HOUR_US)).write(tmp_path / f"{day}.json") for day in range(6)]
    assert read_by(paths) == ["0.json", "1.json"]


def test_one_rank_twice_is_refused_at_its_second_file(tmp_path: Path) -> None:
    paths = [
        training(Run(rank=rank, world_size=4)).write(tmp_path / f"{place}.json") for place, rank in enumerate((0, 1, 1, 2, 3))
    ]
    assert read_by(paths) == ["0.json", "1.json", "2.json"]


def test_different_world_sizes_are_refused_after_two_files(tmp_path: Path) -> None:
    paths = [training(Run(rank=rank, world_size=4 + rank)).write(tmp_path / f"{rank}.json") for rank in range(4)]
    assert read_by(paths) == ["0.json", "1.json"]
