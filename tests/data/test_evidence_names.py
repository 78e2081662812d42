"""Every GPU that published measurements speak of is one we know. Needs the measurements beside the project."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from gpuwise.core.errors import UnknownName
from gpuwise.hardware.catalog import load_catalog

EVIDENCE = Path(__file__).parents[3] / "shared" / "evidence"
# Names of those tables that are no GPU, or a slice or accelerator of a kind we do not model.
NOT_GPUS = ("Xeon Phi", "Inferentia", "Trainium", "Gaudi", "GAUDI", "Virtex", "not stated", "PRO-6000-MIG")


@pytest.mark.parametrize(
    "table", ["e2e.csv", "memory.csv", "parallel.csv", "deepbench.csv", "power.csv", "hardware_measured.csv"]
)
def test_every_measured_gpu_resolves(table: str) -> None:
    path = EVIDENCE / table
    if not path.exists():
        pytest.skip("the published measurements are not beside this checkout")
    with path.open(encoding="utf-8") as file:
        names = {row["gpu"] for row in csv.DictReader(file)}
    unknown = []
    for name in sorted(names):
        if name and not name.startswith(NOT_GPUS):
            try:
                load_catalog().find(name)
            except UnknownName:
                unknown.append(name)
    assert unknown == []
