"""Reads a file of measurements, CSV or Parquet, and recognises from its header which of the known tables it is."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from gpuwise.core.errors import BadFile, MissingExtra
from gpuwise.core.files import check_readable
from gpuwise.evidence.types import Table

__all__ = ["KINDS", "read_table"]

_LARGEST = 4 * 2**30  # bytes
_LONGEST_LINE = 2**20  # characters
# table -> columns it must have
KINDS: Mapping[str, frozenset[str]] = {
    "e2e": frozenset("source gpu gpu_count model mode precision batch_per_gpu image_or_seq step_ms".split()),
    "ops_fp32": frozenset("gpu op b m n k latency_ms".split()),
    "gemm_lowp": frozenset("gpu framework dtype m n k latency_ms".split()),
    "attention": frozenset("gpu phase batch q_len kv_len heads kv_heads head_dim latency_ms".split()),
    "memory": frozenset("source gpu gpu_count model task method precision batch_per_gpu image_or_seq memory_mib kind".split()),
    "collectives": frozenset("gpu gpu_count link op bytes time_us".split()),
    "parallel": frozenset("source gpu gpu_count model seq tp pp micro_batch global_batch precision iteration_ms".split()),
    "deepbench": frozenset("gpu kind suite precision pass time_ms".split()),
    "today": frozenset("source gpu gpu_count model mode precision quantisation stack batch size value unit".split()),
}


def read_table(path: Path) -> Table:
    """Read the table in this file."""
    hint = "see docs/reference/evidence.md for the columns of each table"
    if path.is_dir():
        raise BadFile(f"{path} is a folder", hint="pass a .csv or .parquet file")
    check_readable(path, "pass a .csv or .parquet file with measurements", _LARGEST)
    try:
        columns, odd = (_parquet(path), {}) if path.suffix == ".parquet" else _csv(path)
    except FileNotFoundError:
        raise BadFile(f"file {path} not found", hint="pass a .csv or .parquet file with measurements") from None
    except (OSError, UnicodeDecodeError, csv.Error) as fault:
        raise BadFile(f"{path} cannot be read: {fault}", hint=hint) from None
    for kind, needed in KINDS.items():
        if needed <= columns.keys():
            if not columns["gpu"]:
                raise BadFile(f"{path} has a header but no rows", hint="add one row per measurement below the header")
            return Table(kind=kind, columns=columns, odd=odd)
    known = ", ".join(KINDS)
    raise BadFile(
        f"the header of {path} does not match any known table: it has {', '.join(columns)[:200]}", known=known, hint=hint
    )


def _csv(path: Path) -> tuple[dict[str, tuple[Any, ...]], dict[int, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(_lines(path, file)))
    if not rows or not rows[0]:
        raise BadFile(f"{path} is empty", hint="put the column names in the first line")
    head, body = rows[0], [row for row in rows[1:] if row]  # empty lines are not rows
    odd = {number: f"{len(row)} fields, not {len(head)}" for number, row in enumerate(body) if len(row) != len(head)}
    if len(odd) == len(body) > 0:
        raise BadFile(f"{path} line 2 has {odd[0]}, and no other line is complete", hint="check that the file is complete")
    usable = [[""] * len(head) if number in odd else row for number, row in enumerate(body)]
    return {name: tuple(row[place] for row in usable) for place, name in enumerate(head)}, odd


def _lines(path: Path, file: TextIO) -> Iterator[str]:
    """Yield the lines of a file, without reading a file that has none into memory as one line."""
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise BadFile(f"{path} has a line of more than {_LONGEST_LINE:,} characters", hint="check that it is a CSV file")
        yield line


def _parquet(path: Path) -> dict[str, tuple[Any, ...]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("pyarrow", extra="evidence", needed_for="reading Parquet files") from None
    if not path.exists():
        raise FileNotFoundError(path)
    try:
        table = pyarrow.parquet.read_table(path)
    except pyarrow.ArrowException as fault:
        raise BadFile(f"{path} is not a complete Parquet file: {fault}", hint="check that the file is complete") from None
    return {name: tuple(table[name].to_pylist()) for name in table.column_names}
