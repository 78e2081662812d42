"""How fast a sweep is compared with the kernel models that it uses, and with one `predict` for every point.

    python benchmarks/sweep.py

Training of ResNet-50 and BERT in mixed precision on the curated catalogue at eleven batches, in one process and one run: the
kernels (`simulate` alone, as many GPUs at a time as the sweep takes), one block of a sweep (with memory, ranges and bounds), a
whole sweep into Parquet, and `predict` on points spread over the grid. Times are CPU times, so that a busy machine matters less.
The ratios are more meaningful than the times.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import gpuwise
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import supported
from gpuwise.questions.common.capturing import captured
from gpuwise.questions.common.step import step_query
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.sweep.answer import answer
from gpuwise.questions.sweep.ask import ask
from gpuwise.questions.sweep.block import _AT_ONCE, block_of
from gpuwise.questions.sweep.options import SweepOptions
from gpuwise.step.time.setting import as_run
from gpuwise.step.time.simulate import simulate

MODELS = ("resnet50", "bert-base")
SAMPLE = 40
ROUNDS = 3


def main() -> None:
    """Time each part, and print the rates and their ratios."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "models.txt"
        listed.write_text("\n".join(MODELS), encoding="utf-8")
        out = Path(folder) / "rows.parquet"
        options = SweepOptions(listed, gpus="curated", batches="1..1024", precisions="amp", out=out, on="here", fresh=True)
        query = ask(options)
        for task in query.tasks():
            report(task.model, query.batches, lambda task=task: block_of(task))
        points = len(MODELS) * len(query.batches) * len(load_catalog().curated)
        taken = best(lambda: answer(options))
        print(f"both as a sweep into Parquet: {points / taken:,.0f} rows a CPU second")


def report(model: str, batches: tuple[int, ...], block: Callable[[], object]) -> None:
    """Time the kernels alone, a block, and one `predict` per point for one model."""
    gpus = [gpu for gpu in load_catalog().curated if "amp" in supported(gpu)]
    points = len(gpus) * len(batches)
    kernels, swept = (points / best(work) for work in (lambda: alone(model, batches), block))
    one = 1.0 / each(model, [gpu.name for gpu in gpus], batches)
    print(
        f"{model}: {points:,} points, a CPU second: kernels {kernels:,.0f}, a block of the sweep {swept:,.0f}, predict {one:,.1f}"
    )
    print(f"  the sweep reaches {swept / kernels:.2f} of the kernels' rate, and {swept / one:,.0f} times that of predict")


def alone(model: str, batches: tuple[int, ...]) -> None:
    """The times of all points, and nothing else."""
    query = step_query(StepOptions(model, gpu="A100 PCIe 40GB", precision="amp"))
    workload = captured(query.capture)
    gpus = [gpu for gpu in load_catalog().curated if "amp" in supported(gpu)]
    size = np.array(batches, dtype=float)
    seq = np.full(len(size), float(workload.seq)) if "seq" in workload.symbols and workload.seq else None
    step = max(1, _AT_ONCE // (len(workload.ops) * len(batches)))
    for first in range(0, len(gpus), step):
        simulate(workload, gpus[first : first + step], as_run(query.run.setting, workload), batch=size, seq=seq, by_kind=False)


def each(model: str, names: list[str], batches: tuple[int, ...]) -> float:
    """Seconds of one `predict` call, the median over points spread over the grid."""
    found = []
    for number in range(SAMPLE):
        name, batch = names[number * len(names) // SAMPLE], batches[number % len(batches)]
        begun = time.process_time()
        gpuwise.predict(model=model, gpu=[name], batch=str(batch), precision="amp")
        found.append(time.process_time() - begun)
    return statistics.median(found)


def best(work: Callable[[], object]) -> float:
    """The shortest of a few rounds."""
    taken = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return min(taken)


if __name__ == "__main__":
    main()
