"""Writes `src/gpuwise/evidence/data/measurements.csv`: published steps of models in the zoo, each with its source.

    python tools/build_measurements.py ../shared/evidence/e2e.csv

Values and conditions are copied with their origin. If a source has several equal rows, the median one is kept.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path

import gpuwise.evidence
from gpuwise.hardware.catalog import load_catalog
from gpuwise.workload.store import zoo

TARGET = Path(gpuwise.evidence.__file__).parent / "data" / "measurements.csv"
COLUMNS = (
    "source gpu gpu_count model family framework framework_version stack layout mode precision optimizer batch_per_gpu "
    "image_or_seq step_ms note"
).split()
REFERENCES = {
    "timm": "huggingface/pytorch-image-models @aa4b5850c, Apache-2.0",
    "ryujaehun": "ryujaehun/pytorch-gpu-benchmark @3f47a9e, MIT",
    "lamikr": "lamikr/pytorch-gpu-benchmark @43d1613, MIT",
    "lambda_pytorch": "lambdal/deeplearning-benchmark @aa5addb6",
    "lambda_tf": "lambdal/lambda-tensorflow-benchmark @c17619db9, BSD-3 style",
    "cnn_benchmarks": "jcjohnson/cnn-benchmarks @83d441f, MIT",
    "u39kun": "u39kun/deep-learning-benchmark",
    "neusight": "sitar-lab/NeuSight @6945927, MIT",
    "nvidia_dle": "NVIDIA/DeepLearningExamples @729963dd4, Apache-2.0 and BSD",
}


def main(path: Path) -> None:
    """Choose, sort, write."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if _usable(row)]
    groups = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in COLUMNS if name not in ("step_ms", "note"))].append(row)
    chosen = [sorted(members, key=lambda row: float(row["step_ms"]))[len(members) // 2] for members in groups.values()]
    chosen.sort(key=lambda row: [row[name] for name in COLUMNS])
    with TARGET.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*COLUMNS, "reference"], extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, "reference": REFERENCES[row["source"]]} for row in chosen)
    gpus = {row["gpu"] for row in chosen}
    print(f"{len(chosen)} rows, {len(gpus)} GPUs, {len({row['model'] for row in chosen})} models")


def _usable(row: dict[str, str]) -> bool:
    """Whether a row has one GPU from the catalogue, a step time, and a model from the zoo at its default size."""
    if row["gpu_count"] != "1" or not row["step_ms"] or not zoo.has(row["model"]):
        return False
    load_catalog().find(row["gpu"])
    entry = zoo.entry(row["model"])
    return entry.seq is not None or str(entry.image) == row["image_or_seq"]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
