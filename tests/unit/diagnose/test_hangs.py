"""Dumps of the NCCL flight recorder: which collective hangs and which rank causes it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import gpuwise
from gpuwise.core.errors import BadFile
from making_files import collective, flight, pickled


def written(folder: Path, *ranks: list[dict[str, Any]], text: bool = False) -> list[str]:
    paths = []
    for rank, entries in enumerate(ranks):
        path = folder / f"nccl_trace_rank_{rank}"
        dump = flight(entries, ranks=str(list(range(len(ranks)))))
        if text:
            path.write_text(json.dumps(dump), encoding="utf-8")
        else:
            pickled(path, dump)
        paths.append(str(path))
    return paths


@pytest.mark.parametrize("text", [False, True])
def test_the_rank_that_never_arrives_is_named_with_the_collective(text: bool, tmp_path: Path) -> None:
    there = [collective(1), collective(2), collective(3, "all_gather", state="started")]
    answer = gpuwise.why(written(tmp_path, there, there[:2], there, text=text)).to_dict()
    (hang,) = answer["collectives"]["hangs"]
    assert (hang["kind"], hang["sequence"], hang["names"]) == ("missing", 3, ["nccl:all_gather"])
    assert (hang["missing_ranks"], hang["waiting_ranks"]) == ([1], [0, 2])
    assert "rank 1 never arrived at nccl:all_gather" in answer["verdict"]
    assert answer["findings"][0]["code"] == "rank_missing"
    assert "rank 1's last call was nccl:all_reduce, collective 2" in " ".join(answer["findings"][0]["evidence"])


def test_different_collectives_at_one_number_come_before_everything_else(tmp_path: Path) -> None:
    left = [collective(1), collective(2, state="started"), collective(3, state="scheduled")]
    right = [collective(1), collective(2, "broadcast", state="started")]
    answer = gpuwise.why(written(tmp_path, left, right)).to_dict()
    (hang,) = answer["collectives"]["hangs"]
    assert (hang["kind"], hang["sequence"]) == ("op", 2)
    assert "rank 1: nccl:broadcast" in answer["verdict"]


def test_different_sizes_are_found_where_sizes_must_be_alike(tmp_path: Path) -> None:
    left, right = [collective(1, state="started")], [collective(1, state="started", input_sizes=[[1000, 16]])]
    assert gpuwise.why(written(tmp_path, left, right)).to_dict()["collectives"]["hangs"][0]["kind"] == "size"
    free = [[collective(1, "all_to_all", input_sizes=[[rows]])] for rows in (3, 4)]
    assert gpuwise.why(written(tmp_path, *free)).to_dict()["collectives"]["hangs"] == []


def test_all_ranks_inside_one_collective_are_stuck_and_none_is_blamed(tmp_path: Path) -> None:
    entries = [collective(1), collective(2, state="started")]
    (hang,) = gpuwise.why(written(tmp_path, entries, entries)).to_dict()["collectives"]["hangs"]
    assert (hang["kind"], hang["missing_ranks"], hang["waiting_ranks"]) == ("stuck", [], [0, 1])


def test_a_run_that_ended_has_no_hang_and_a_buffer_that_wrapped_is_no_missing_rank(tmp_path: Path) -> None:
    whole = [collective(number) for number in range(1, 9)]
    answer = gpuwise.why(written(tmp_path, whole, whole[5:]))
    assert answer.to_dict()["verdict"].startswith("no collective hangs")


def test_a_folder_of_dumps_without_endings_is_read(tmp_path: Path) -> None:
    written(tmp_path, [collective(1, state="started")], [])
    (hang,) = gpuwise.why([str(tmp_path)]).to_dict()["collectives"]["hangs"]
    assert hang["missing_ranks"] == [1]


def test_groups_of_other_ranks_with_the_same_name_are_not_mixed(tmp_path: Path) -> None:
    """Ranks 0 and 1 reduce among themselves, ranks 2 and 3 gather: both groups are called 0."""
    paths = []
    for rank, (name, ranks) in enumerate((("all_reduce", "[0, 1]"),) * 2 + (("all_gather", "[2, 3]"),) * 2):
        entries = [collective(1, name), *([collective(2, name, state="started")] if rank != 3 else [])]
        paths.append(str(pickled(tmp_path / f"rank_{rank}", flight(entries, ranks=ranks))))
    hangs = {tuple(hang["names"]): hang for hang in gpuwise.why(paths).to_dict()["collectives"]["hangs"]}
    assert hangs[("nccl:all_gather",)]["missing_ranks"] == [3]
    assert hangs[("nccl:all_reduce",)]["kind"] == "stuck"


def test_a_rank_without_a_dump_is_said_to_be_unknown(tmp_path: Path) -> None:
    paths = written(tmp_path, [collective(1, state="started")], [], [])
    answer = gpuwise.why(paths[:1])
    assert "may never have arrived" in str(answer)
    assert answer.to_dict()["collectives"]["ranks_without_dump"] == [1, 2]


def test_a_call_that_is_retired_has_ended_whatever_its_state(tmp_path: Path) -> None:
    """gloo never updates the state."""
    entries = [collective(number, state="scheduled", retired=True) for number in (1, 2)]
    assert gpuwise.why(written(tmp_path, entries, entries)).to_dict()["collectives"]["hangs"] == []


def test_a_send_that_waits_is_found(tmp_path: Path) -> None:
    entries = [collective(1, "send 0->1", state="started", is_p2p=True)]
    answer = gpuwise.why(written(tmp_path, entries, [collective(1)]))
    assert "rank 0 waits in nccl:send 0->1" in str(answer).replace("\n", " ")


def test_one_rank_twice_is_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "a_0", tmp_path / "b_0"
    for path in (first, second):
        pickled(path, flight([collective(1)]))
    with pytest.raises(BadFile, match="rank 0 appears more than once"):
        gpuwise.why([str(first), str(second)])


@pytest.mark.parametrize(
    "raw",
    [
        pickle.dumps(flight([collective(1)]))[:-20],
        b'{"pg_config": {"0": {"ranks": "[0, 1]"}}, "entries": [{"collective_seq_id": 1',
        b'{"version": "2.4", "pg_config": {}, "entries": []}',
    ],
)
def test_a_damaged_or_empty_dump_is_refused(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "f_0").write_bytes(raw)
    with pytest.raises(BadFile):
        gpuwise.why([str(tmp_path / "f_0")])
