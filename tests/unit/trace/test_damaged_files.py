"""A damaged file of any format ends `gpuwise why` with exit code 2, an error and a hint: never with a traceback."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import fuzz_seeds as seeds
from commanding import Commands

FORMATS: dict[str, Callable[[Path], list[bytes]]] = {
    "trace.json": seeds.traces,
    "old.json": seeds.old_traces,
    "trace.xplane.pb": seeds.xplanes,
    "trace.sqlite": seeds.exports,
    "results.json": seeds.amd_traces,
    "results.db": seeds.rocpds,
    "trace.rpd": seeds.rpds,
    "snapshot.pickle": seeds.snapshots,
    "nccl_trace_rank_0": seeds.dumps,
    "execution.json": seeds.execution_traces,
}
TABLES: dict[str, Callable[[Path], list[bytes]]] = {"readings.txt": seeds.readings, "table.txt": seeds.op_tables}


def refused(commands: Commands, path: Path, data: bytes) -> None:
    path.write_bytes(data)
    for form in ((), ("--json",)):
        done = commands.run("why", path.name, *form, folder=path.parent)
        assert done.returncode == 2, done.stdout
        assert done.stdout == ""
        assert done.stderr.startswith("error: ")
        assert "\nhint: " in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", FORMATS)
def test_the_first_bytes_alone_are_refused(name: str, commands: Commands, tmp_path: Path) -> None:
    for seed in FORMATS[name](tmp_path):
        refused(commands, tmp_path / name, seed[:60])


@pytest.mark.parametrize("name", FORMATS)
def test_noise_behind_the_first_bytes_is_refused(name: str, commands: Commands, tmp_path: Path) -> None:
    chance = random.Random(7)  # noqa: S311 (not for secrets)
    for seed in FORMATS[name](tmp_path):
        refused(commands, tmp_path / name, seed[:40] + chance.randbytes(2000))


@pytest.mark.parametrize("name", TABLES)
def test_a_table_without_rows_is_refused(name: str, commands: Commands, tmp_path: Path) -> None:
    for seed in TABLES[name](tmp_path):
        refused(commands, tmp_path / name, b"".join(seed.splitlines(keepends=True)[: 2 if seed[:1] in b"#-" else 1]))
