"""What `gpuwise why` prints, to the letter, on traces made here and frozen tables: tests/freezing.py says why.

To renew: GPUWISE_UPDATE_GOLDEN=1 pytest tests/golden."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from freezing import Frozen
from making_files import collective, dmon, flight, op_table, pickled, snapshot
from making_ranks import Delay, lockstep, nsys_of_processes
from making_traces import SGEMM, Run, execution_trace, nsys, training, xplane

FOLDER = Path(__file__).parent / "why"
CASES = {
    "starved": ["starved.json.gz"],
    "healthy": ["healthy.json"],
    "launch": ["launch.json"],
    "ranks": ["rank0.json", "rank1.json", "rank2.json"],
    "gpus": ["gpus.sqlite"],
    "compare": ["starved.json.gz", "--compare", "healthy.json"],
    "markdown": ["starved.json.gz", "--format", "markdown"],
    "html": ["starved.json.gz", "--format", "html"],
    "xplane": ["jax.pb"],
    "nsys": ["nsys.sqlite", "--gpu", "V100 SXM 32GB"],
    "cut": ["cut.json.gz"],
    "memory": ["snapshot.pickle"],
    "hang": ["rank_0", "rank_1", "rank_2"],
    "readings": ["dmon.txt", "--gpu", "V100 SXM 32GB"],
    "sums": ["table.txt", "-v"],
    "beside": ["healthy.json", "dmon.txt"],
    "error_execution": ["execution.json"],
    "error_cut": ["short.json"],
    "error_empty": ["empty.json"],
    "error_other": ["other.txt"],
    "error_missing": ["nothing.json"],
    "error_two_runs": ["healthy.json", "later.json"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    whole = training(load_us=6000.0, workers=False, name=SGEMM).write(tmp_path / "starved.json.gz")
    (tmp_path / "cut.json.gz").write_bytes(whole.read_bytes()[:-400])
    training().write(tmp_path / "healthy.json")
    (tmp_path / "short.json").write_bytes((tmp_path / "healthy.json").read_bytes()[:2000])
    training(Run(begin_us=1_700_000_000_000_000.0)).write(tmp_path / "later.json")
    training(kernels=200, kernel_us=4.0, gap_us=15.0).write(tmp_path / "launch.json")
    for rank in range(3):
        training(Run(rank=rank, world_size=4), reduce_us=400.0 if rank == 1 else 2500.0).write(tmp_path / f"rank{rank}.json")
    (tmp_path / "jax.pb").write_bytes(xplane())
    nsys(tmp_path / "nsys.sqlite", kernels=40)
    nsys_of_processes(lockstep(3, {1: Delay(load_us=3000.0)}), tmp_path / "gpus.sqlite")
    (tmp_path / "empty.json").write_text('{"traceEvents": []}', encoding="utf-8")
    (tmp_path / "other.txt").write_text("nothing of the kind", encoding="utf-8")
    pickled(tmp_path / "snapshot.pickle", snapshot(oom=True))
    there = [collective(1), collective(2, "all_gather", state="started")]
    for rank in range(3):
        pickled(tmp_path / f"rank_{rank}", flight(there if rank != 1 else there[:1]), protocol=2)
    (tmp_path / "dmon.txt").write_text(dmon(thermal=1), encoding="utf-8")
    (tmp_path / "table.txt").write_text(
        op_table([("aten::mm", 30.0, 60.0, 90), ("aten::relu", 90.0, 20.0, 90)]), encoding="utf-8"
    )
    (tmp_path / "execution.json").write_text(json.dumps(execution_trace(5)), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", CASES)
def test_why_is_as_agreed(name: str, frozen: Frozen, folder: Path) -> None:
    found = frozen.answer(["why", *CASES[name]], folder)
    golden = FOLDER / f"{name}.txt"
    if os.environ.get("GPUWISE_UPDATE_GOLDEN"):
        golden.write_text(found.text, encoding="utf-8")
    assert found.text == golden.read_text(encoding="utf-8")
    assert found.refused == name.startswith("error")


def test_every_golden_file_of_why_has_its_case() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(CASES)
