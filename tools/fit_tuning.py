"""Fits the speeds of attention with a mask to published fine-tuning steps, and tests them on GPUs and sources left out.

    python tools/fit_tuning.py ../shared/evidence/today_language.csv

Writes the values to `src/gpuwise/evidence/data/tuning.json` and the errors to `docs/accuracy-tuning.md`. Everything else is
predicted from what a trainer does. No constant is fitted for a single method, model or GPU.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gpuwise.evidence.masked import MaskedRates, masked
from gpuwise.evidence.tables import read_table
from gpuwise.evidence.today import TodayQuestion, score_today, today_questions
from gpuwise.evidence.types import Table

HERE = Path(__file__).resolve().parents[1]
FITTED = HERE / "src/gpuwise/evidence/data/tuning.json"
PAGE = HERE / "docs/accuracy-tuning.md"
RATES = tuple(float(rate) for rate in np.geomspace(0.05, 1.5, 35))
# The middle of each speed relative to the usual kernel, and how far it may lie from there, as a logarithm. `half`: on an A100,
# 80 TFLOP/s backward with a mask (NVIDIA/cutlass#992), where the usual kernel is predicted at 97, and 178 forward without one
# (facebookresearch/xformers#587), where it is predicted at 153. `tf32`: 42 forward and 15 backward (xformers#587), where the
# usual kernel is predicted at 76 and 48. `small`: assumed; steps forward and backward on GPUs of capability 8.6 and 8.9 reach 0.3
# times the speed of those on 8.0 even with the usual kernel (pytorch/pytorch#192799, which does not name the GPUs).
PRIORS = {"half": (0.8, 0.3), "tf32": (0.4, 0.3), "small": (0.45, 0.4)}
_NOISE, _HUBER = 0.1, 1.5
_GRID = {name: middle * np.exp(np.linspace(-1.2, 1.2, 49)) for name, (middle, _) in PRIORS.items()}

HEAD = """# How accurate are fine-tuning predictions?

`tools/fit_tuning.py` writes this page. It compares predictions with published step times and memory for LoRA, QLoRA and full
fine-tuning on one GPU. Each prediction models the trainer that was used: adapters as in PEFT, packed weights that are dequantised
before every matrix product, recomputed blocks, and the loss on the logits. We took the adapter ranks, adapted layers and data
types from the sources' code (`evidence/data/tuning.json`). Three constants are fitted: the speeds of attention with a mask in 16
bits, in fp32, and on GPUs with little shared memory. Each constant has a prior from published kernel timings. The last two
columns give the median errors when these constants are fitted only to the other GPUs or sources. If a source is left out, only
the priors apply. We looked at these rows to find out what the sources ran, so the errors are optimistic.

"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A row with its predicted value over the measured one, for each of `RATES`. `uses` names the speeds that it depends on."""

    source: str
    method: str
    gpu: str
    unit: str
    uses: tuple[str, ...]
    ratios: tuple[float, ...]

    def ratio(self, rates: dict[str, float]) -> float:
        """Return predicted over measured at these speeds."""
        rate = math.prod(rates[name] for name in self.uses)
        return float(np.exp(np.interp(math.log(rate), np.log(RATES), np.log(self.ratios))))


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
            uses=used(row),
            ratios=tuple(found[row.row]),
        )
        for row in rows
    ]


def used(row: TodayQuestion) -> tuple[str, ...]:
    """Return the speeds on which the time of a row depends."""
    if row.question is None or row.tuned is None or not row.tuned.practice.masked or row.unit == "GiB":
        return ()
    in_fp32 = any(op.kind == "attention" and op.dtype == "tf32" for op in row.question.workload.ops)
    return ("tf32" if in_fp32 else "half", *(("small",) if row.tuned.small else ()))


def at_rate(row: TodayQuestion, rate: float) -> TodayQuestion:
    """The same row with another rate for attention with a mask."""
    if not used(row) or row.question is None or row.tuned is None:
        return row
    rates = MaskedRates(half=rate, tf32=rate, small=1.0)
    workload = masked(row.question.workload, rates, small=row.tuned.small, reached=row.tuned.reached)
    return replace(row, question=replace(row.question, workload=workload))


def best(rows: Sequence[Answered]) -> dict[str, float]:
    """The speeds that minimise the sum of robust errors and distances from the priors. Speeds that no row depends on stay at
    their priors."""
    timed = [row for row in rows if row.uses]
    found = {name: middle for name, (middle, _) in PRIORS.items()}
    for _ in range(4):
        for name, values in _GRID.items():
            losses = [loss(timed, {**found, name: float(value)}) for value in values]
            found[name] = float(values[int(np.argmin(losses))])
    return found


def loss(rows: Sequence[Answered], rates: dict[str, float]) -> float:
    """Huber's loss of the logarithms, and how far the speeds lie from the priors."""
    far = np.abs([math.log(row.ratio(rates)) for row in rows]) / _NOISE if rows else np.zeros(0)
    huber = np.where(far < _HUBER, far**2 / 2, _HUBER * far - _HUBER**2 / 2)
    prior = sum((math.log(rates[name] / middle) / spread) ** 2 / 2 for name, (middle, spread) in PRIORS.items())
    return float(huber.sum()) + prior


def errors(rows: Sequence[Answered], whole: Sequence[Answered]) -> tuple[list[float], list[float], list[float]]:
    """Predictions with speeds fitted to all rows, only to the other GPUs, and only to the other sources."""
    place = best(whole)
    gpus = {gpu: best([row for row in whole if row.gpu != gpu]) for gpu in {row.gpu for row in rows}}
    sources = {name: best([row for row in whole if row.source != name]) for name in {row.source for row in rows}}
    return (
        [row.ratio(place) - 1 for row in rows],
        [row.ratio(gpus[row.gpu]) - 1 for row in rows],
        [row.ratio(sources[row.source]) - 1 for row in rows],
    )


def table(rows: Sequence[Answered], title: str, key: Callable[[Answered], str]) -> list[str]:
    """Errors by one property, separately for time and memory."""
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
    """Fit the speeds, write both files and print the errors."""
    whole = read_table(path)
    rows = [row for row in today_questions(tuned_only(whole))[0] if row.tuned is not None]
    found = answered(rows)
    rates = best(found)
    data = json.loads(FITTED.read_text(encoding="utf-8"))
    data["fitted"] = {name: round(rate, 3) for name, rate in rates.items()}
    FITTED.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    lines = [HEAD]
    for title, key in _KEYS.items():
        lines += table(found, title, key)
    lines.append(
        f"According to the fit, attention with a mask runs at {rates['half']:.0%} of the speed of the usual kernel. In fp32, it "
        f"runs at {rates['tf32']:.0%} of the speed that it would have in TF32. GPUs with little shared memory "
        f"reach {rates['small']:.0%} of these speeds."
    )
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
    """Only the training rows. The many other rows are scored elsewhere."""
    kept = [number for number, mode in enumerate(table.columns["mode"]) if mode == "train"]
    return replace(
        table, columns={name: tuple(values[number] for number in kept) for name, values in table.columns.items()}, odd={}
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
