"""Fits how much several GPUs slow each other down apart from messages, and writes `scale/data/scaling.json`.

    python tools/fit_scaling.py ../shared/evidence/e2e.csv [--dry-run]

Uses rows on several GPUs that have a row on one GPU in the same setup. First it fits the slowdown of steps that exchange nothing
(in inference, GPUs wait for the slowest and share a host and its power). Then it fits how much compute slows down during
messages, by framework. Both are fitted on the rows of some GPUs and tested on the others, then fitted on all.
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpuwise.core.files import write_whole
from gpuwise.evidence.e2e import Question, questions
from gpuwise.evidence.score import cluster_of, setting_of
from gpuwise.evidence.tables import read_table
from gpuwise.evidence.types import Table
from gpuwise.scale.cluster import collectives as shipped
from gpuwise.scale.split.data_parallel import averaged, gradients_of, timeline_of

DATA = Path(shipped.__file__).parents[1] / "data" / "scaling.json"
SOURCES = ("lambda_pytorch", "lambda_tf", "nvidia_dle")
SLOWED = np.linspace(0.0, 1.0, 21)
WAITS = np.linspace(0.0, 0.03, 31)


def pairs(path: Path) -> list[tuple[Question, float]]:
    """Rows on several GPUs with their efficiency against one GPU in the same setup."""
    table = read_table(path)
    chosen = [row for row in range(table.count) if table.columns["source"][row] in SOURCES]
    table = Table(kind="e2e", columns={name: tuple(values[row] for row in chosen) for name, values in table.columns.items()})
    asked, _ = questions(table, zoo_only=True)
    alone: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for question in asked:
        if question.gpu_count == 1:
            alone[_setup(question)].append(question.measured_s)
    shared = [question for question in asked if question.gpu_count > 1 and _setup(question) in alone]
    return [(question, float(np.median(alone[_setup(question)]) / question.measured_s)) for question in shared]


def _setup(question: Question) -> tuple[Any, ...]:
    cells = question.cells
    names = ("source", "model", "framework_version", "stack", "layout", "mode", "precision")
    return (*(cells.get(name, "") for name in names), question.gpu.name, question.batch, question.seq)


def is_odd(question: Question) -> bool:
    """TensorFlow graphs in fp16, except AlexNet, lose a third on two GPUs regardless of the link. Those on the RTX 3090 copy
    through the host in addition to using NCCL. Both effects come from the software, not from the links."""
    graph = question.cells["framework"] == "tf" and question.cells["stack"] == "graph"
    return graph and (question.cells["precision"] == "fp16" or question.gpu.name == "RTX 3090")


def efficiencies(question: Question) -> Any:
    """Predictions without waits, for every value of SLOWED."""
    setting, _ = setting_of(question)
    line = timeline_of(question.workload, question.gpu, setting, batch=question.batch, seq=question.seq)
    cluster = cluster_of(question)
    gradients = gradients_of(question.workload, question.batch, question.seq)
    exposed = [averaged(line, gradients, cluster, slowed_fraction=float(value)).exposed_s for value in SLOWED]
    return line.step_s / (line.step_s + np.array(exposed))


def waited(question: Question, per_doubling: float) -> float:
    return 1.0 / (1.0 + per_doubling * math.log2(question.gpu_count))


def fit_waits(rows: Sequence[tuple[Question, float]]) -> float:
    """The loss per doubling of GPUs that fits inference best."""
    off = [np.median([abs(np.log(waited(question, value) / measured)) for question, measured in rows]) for value in WAITS]
    return round(float(WAITS[int(np.argmin(off))]), 4)


def fit_slowed(rows: Sequence[tuple[Question, float, Any]], waits: float) -> float:
    """There are half a dozen models in many containers, so every combination of GPU, count and model has the same weight."""
    groups: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for question, measured, predicted in rows:
        error = np.abs(np.log(predicted * waited(question, waits) / measured))
        groups[(question.gpu.name, question.gpu_count, question.cells["model"])].append(error)
    off = np.mean([np.mean(members, axis=0) for members in groups.values()], axis=0)
    return round(float(SLOWED[int(np.argmin(off))]), 3)


def score(rows: Sequence[tuple[Question, float, Any]], found: Mapping[str, Any], title: str) -> None:
    if not rows:
        return
    off = []
    for question, measured, predicted in rows:
        value = np.interp(found["slowed_fraction"][question.cells["framework"]], SLOWED, predicted)
        off.append(value * waited(question, found["waits_per_doubling"]) / measured - 1)
    size = np.abs(off)
    figures = f"median {np.median(size):.1%}  90 % {np.quantile(size, 0.9):.1%}  bias {np.median(off):+.1%}"
    print(f"{title:44} {len(off):4} rows  {figures}")


def fit(infer: Sequence[tuple[Question, float]], train: Sequence[tuple[Question, float, Any]]) -> dict[str, Any]:
    waits = fit_waits(infer)
    slowed = {}
    for framework in ("torch", "tf"):
        slowed[framework] = fit_slowed(
            [row for row in train if row[0].cells["framework"] == framework and not is_odd(row[0])], waits
        )
    return {"waits_per_doubling": waits, "slowed_fraction": slowed}


def main(arguments: Sequence[str]) -> None:
    rows = pairs(Path(arguments[0]))
    infer = [row for row in rows if row[0].cells["mode"] == "infer"]
    train = [(question, measured, efficiencies(question)) for question, measured in rows if question.cells["mode"] == "train"]
    print(f"{len(infer)} inference rows, {len(train)} training rows, {sum(is_odd(row[0]) for row in train)} of them odd")
    for gpu in sorted({row[0].gpu.name for row in train}):
        without = fit([row for row in infer if row[0].gpu.name != gpu], [row for row in train if row[0].gpu.name != gpu])
        score([row for row in train if row[0].gpu.name == gpu and not is_odd(row[0])], without, f"without {gpu}")
    found = fit(infer, train)
    score([row for row in train if not is_odd(row[0])], found, "all (fitted)")
    score([row for row in train if is_odd(row[0])], found, "odd ones")
    found["fitted_on"] = f"{len(infer)} inference and {sum(not is_odd(row[0]) for row in train)} training rows of e2e.csv"
    print(json.dumps(found))
    if "--dry-run" not in arguments:
        write_whole(DATA, (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main(sys.argv[1:])
