"""Writes `src/gpuwise/evidence/data/memory_measurements.csv`: published peaks that can be predicted without any framework.

    python tools/build_memory_measurements.py ../shared/evidence/memory.csv

LitGPT's rows are computed from shapes. From GPUMemNet, only models in the zoo at timm's default size are used. Values and
conditions are copied with their origin.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import gpuwise.evidence
from gpuwise.workload.store import zoo

TARGET = Path(gpuwise.evidence.__file__).parent / "data" / "memory_measurements.csv"
COLUMNS = (
    "source gpu gpu_count model family task method precision optimizer batch_per_gpu image_or_seq memory_mib kind note"
).split()
REFERENCES = {
    "gpumemnet": "itu-rad/GPUMemNet @f01eb0592, fake_tensor.xlsx",
    "litgpt": "Lightning-AI/litgpt @26857050, Apache-2.0",
}


def main(path: Path) -> None:
    """Choose and write, in the order of the source."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if _usable(row)]
    with TARGET.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*COLUMNS, "reference"], extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, "reference": REFERENCES[row["source"]]} for row in rows)
    print(f"{len(rows)} rows, {len({row['model'] for row in rows})} models")


def _usable(row: dict[str, str]) -> bool:
    if row["source"] == "litgpt":
        return True
    if row["source"] != "gpumemnet" or not zoo.has(row["model"]):
        return False
    return zoo.entry(row["model"]).image == _trained_at(row["model"])


def _trained_at(model: str) -> int:
    """timm's default image size for a model."""
    from gpuwise.workload.capture.torch.torchvision import import_torchvision

    import_torchvision()
    import timm

    return int(timm.get_pretrained_cfg(model).input_size[-1])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
