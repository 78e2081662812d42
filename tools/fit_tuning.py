"""Fits the speed of attention with a mask to published fine-tuning steps, and tests it on GPUs and sources that were left out.

    python tools/fit_tuning.py ../shared/evidence/today_language.csv

Writes the value to `src/gpuwise/evidence/data/tuning.json` and the errors to `docs/accuracy-tuning.md`. Everything else is
predicted from what a trainer does: nothing is fitted by method, model or GPU.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gpuwise.evidence.tables import read_table
from gpuwise.evidence.today import TodayQuestion, score_today, today_questions
from gpuwise.evidence.types import Table

HERE = Path(__file__).resolve().parents[1]
FITTED = HERE / "src/gpuwise/evidence/data/tuning.json"
PAGE = HERE / "docs/accuracy-tuning.md"
RATES = tuple(float(rate) for rate in np.geomspace(0.12, 1.0, 25))
MIDDLE = 1.0  # of a source that was left out: the usual kernel

HEAD = """# How accurate are fine-tuning predictions?

This page compares predictions with published step times for LoRA, QLoRA and full fine-tuning on one GPU. Each prediction
follows the trainer that was used: adapters as in PEFT, packed weights that are dequantised before every matrix product,
recomputed blocks, and the loss on the logits. We took the ranks, layers and data types from the sources' code
(`evidence/data/tuning.json`). One constant is fitted: the speed of attention with a mask. The last two columns are the median
errors with that constant fitted only to the other GPUs or sources. `tools/fit_tuning.py` writes this page.

"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A row with its measured value over the predicted one, for every rate."""

    source: str
    method: str
    gpu: str
    unit: str
    ratios: tuple[float, ...]


def answered(rows: Sequence[TodayQuestion]) -> list[Answered]:
    """Every row at every rate."""
    found: dict[int, list[float]] = {}
    for rate in RATES:
        for entry in score_today([at_rate(row, rate) for row in rows]):
            found.setdefault(entry.row, []).append(entry.predicted_s / entry.measured_s)
    return [
        Answered(
            source=row.cells["source"],
            method=row.cells["stack"].partition(";")[0],
            gpu=row.gpu.name,
            unit=row.unit,
            ratios=tuple(found[row.row]),
        )
        for row in rows
    ]


def at_rate(row: TodayQuestion, rate: float) -> TodayQuestion:
    """The same row with attention at another rate."""
    if row.question is None:
        return row
    workload = row.question.workload
    ops = tuple(replace(op, attrs={**op.attrs, "rate": rate}) if "rate" in op.attrs else op for op in workload.ops)
    return replace(row, question=replace(row.question, workload=replace(workload, ops=ops)))


def best(rows: Sequence[Answered]) -> int:
    """The place of the rate with the least sum of errors; the usual kernel's where no row depends on it."""
    timed = [row for row in rows if row.unit == "ms_per_step" and row.ratios[0] != row.ratios[-1]]
    if not timed:
        return RATES.index(MIDDLE)
    return int(np.argmin(np.abs(np.log([row.ratios for row in timed])).sum(axis=0)))


def errors(rows: Sequence[Answered], whole: Sequence[Answered]) -> tuple[list[float], list[float], list[float]]:
    """With the figure that all rows give, with that of the other GPUs alone, and with that of the other sources alone."""
    place = best(whole)
    gpus = {gpu: best([row for row in whole if row.gpu != gpu]) for gpu in {row.gpu for row in rows}}
    sources = {name: best([row for row in whole if row.source != name]) for name in {row.source for row in rows}}
    return (
        [row.ratios[place] - 1 for row in rows],
        [row.ratios[gpus[row.gpu]] - 1 for row in rows],
        [row.ratios[sources[row.source]] - 1 for row in rows],
    )


def table(rows: Sequence[Answered], title: str, key: Callable[[Answered], str]) -> list[str]:
    """Errors by one property, times and memory apart."""
    lines = [
        f"| {title} | quantity | rows | median | bias | GPU left out | source left out |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for name in sorted({key(row) for row in rows}):
        for unit, what in (("ms_per_step", "time"), ("GiB", "memory")):
            chosen = [row for row in rows if key(row) == name and row.unit == unit]
            if chosen:
                found = errors(chosen, rows)
                middle, gpu, source = (f"{float(np.median(np.abs(values))):.1%}" for values in found)
                bias = float(np.median(found[0]))
                lines.append(f"| {name} | {what} | {len(chosen)} | {middle} | {bias:+.1%} | {gpu} | {source} |")
    return [*lines, ""]


def main(path: Path) -> int:
    """Fit, write, and say how well it does."""
    whole = read_table(path)
    rows = [row for row in today_questions(tuned_only(whole))[0] if row.tuned is not None]
    found = answered(rows)
    rate = RATES[best(found)]
    data = json.loads(FITTED.read_text(encoding="utf-8"))
    data["fitted"] = {"masked_attention_rate": round(rate, 3)}
    FITTED.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    lines = [HEAD]
    for title, key in _KEYS.items():
        lines += table(found, title, key)
    lines.append(f"Attention with a mask runs at {rate:.0%} of the speed of the usual kernel.")
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines[1:]))
    return 0


_KEYS: dict[str, Callable[[Answered], str]] = {
    "group": lambda row: "all rows",
    "source": lambda row: row.source,
    "method": lambda row: row.method,
    "GPU": lambda row: row.gpu,
    "source and GPU": lambda row: f"{row.source}, {row.gpu}",
}


def tuned_only(table: Table) -> Table:
    """The rows of training alone: the others are many, and asked elsewhere."""
    kept = [number for number, mode in enumerate(table.columns["mode"]) if mode == "train"]
    return replace(
        table, columns={name: tuple(values[number] for number in kept) for name, values in table.columns.items()}, odd={}
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
