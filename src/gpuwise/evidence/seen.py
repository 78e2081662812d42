"""The (source, GPU) pairs on which the shipped constants were fitted. Rows from such a pair are weak evidence."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import as_file, files

from gpuwise.core.errors import GpuwiseError
from gpuwise.evidence.tables import read_table
from gpuwise.evidence.types import Residual, Table
from gpuwise.hardware.catalog import load_catalog

__all__ = ["in_sample"]

_TABLES = {"e2e": "measurements.csv", "memory": "memory_measurements.csv", "parallel": "parallel_measurements.csv"}


def in_sample(table: Table, residuals: Sequence[Residual]) -> int:
    """Return how many of these rows are from a source and GPU used to fit the table's constants."""
    if table.kind not in _TABLES:
        return 0
    sources, gpus = table.columns["source"], table.columns["gpu"]
    known = _pairs(table.kind)
    return sum((str(sources[row.row]), _meant(str(gpus[row.row]))) in known for row in residuals)


@cache
def _pairs(kind: str) -> frozenset[tuple[str, str]]:
    with as_file(files("gpuwise.evidence") / "data" / _TABLES[kind]) as path:
        columns = read_table(path).columns
    return frozenset((str(source), _meant(str(gpu))) for source, gpu in zip(columns["source"], columns["gpu"], strict=True))


@cache
def _meant(name: str) -> str:
    try:
        return load_catalog().find(name).gpu.name
    except GpuwiseError:
        return name
