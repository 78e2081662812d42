"""Fits the values specific to each source of `parallel.csv` (its software and hosts) and writes `evidence/data/parallel.json`.

    python tools/fit_parallel.py ../shared/evidence/parallel.csv

The models of a source are sorted by size. Every other one is used in the fit, and the rest are the test set. Only a few numbers
are fitted, namely a kernel factor for each GPU architecture, host seconds per call, seconds for a stage to pass on its result,
and the share of hidden messages that still takes time. Ranges come from the test rows only, which are also written to
`evidence/data/parallel_measurements.csv`, the table that the accuracy test predicts.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import msgspec
import numpy as np

from gpuwise import evidence
from gpuwise.evidence.parallel import ParallelQuestion, SourceFit, parallel_fits, parallel_questions, score_parallel
from gpuwise.evidence.ranges import Range
from gpuwise.evidence.tables import read_table
from gpuwise.evidence.types import Residual

DATA = Path(evidence.__file__).parent / "data" / "parallel.json"
_GRID: dict[str, dict[str, tuple[float, ...]]] = {
    "vtrain_single": {"launch_s": (90e-6, 100e-6, 110e-6, 120e-6), "neighbour_s": (1.5e-3, 2e-3, 2.5e-3, 3e-3)},
    "llm_foundry": {"contention_fraction": (0.3, 0.5), "attention:hopper": (1.0, 1.3, 1.6, 1.9)},
    "megatron_bridge": {"contention_fraction": (0.1, 0.3)},
}
_ROUNDS = 2
_COLUMNS = (
    "source gpu gpu_count model task hidden heads layers seq tp pp cp vp ep fsdp sharding micro_batch global_batch "
    "precision recompute iteration_ms"
).split()
_DECIDED = 0.93  # the effect on the step if kernel time falls by a tenth
_WORST = 0.5  # the maximum error of a row, because some published ones are wrong


def main() -> int:
    """Fit each source, print its accuracy on both halves, write the file."""
    asked, reasons = parallel_questions(read_table(Path(sys.argv[1])))
    print(f"{len(asked)} rows; left out: {dict(reasons)}")
    content = msgspec.json.decode(DATA.read_bytes())
    kept: list[ParallelQuestion] = []
    for source in _GRID:
        mine = [question for question in asked if question.source == source]
        sizes = sorted({_size(question) for question in mine})
        train = [question for question in mine if sizes.index(_size(question)) % 2 == 0]
        test = [question for question in mine if sizes.index(_size(question)) % 2]
        kept += test
        fit = _fitted(source, parallel_fits()[source], train)
        misses = [np.log(row.measured_s / row.predicted_s) for row in score_parallel(test, {source: fit})]
        low, high = np.exp(np.quantile(misses, [0.1, 0.9]))
        fit = msgspec.structs.replace(fit, low=round(float(low), 4), high=round(float(high), 4))
        for name, rows in (("fitted on", train), ("test", test)):
            _show(f"{source}, {name}", score_parallel(rows, {source: fit}))
        content["sources"][source] = msgspec.to_builtins(fit)
    _keep(kept)
    content["unknown"] = _unknown(asked)
    content["fitted_on"] = f"{Path(sys.argv[1]).name}: every other model size of each source, smallest first"
    DATA.write_text(msgspec.json.format(msgspec.json.encode(content), indent=1).decode() + "\n")
    return 0


def _keep(rows: Sequence[ParallelQuestion]) -> None:
    """The test rows, with the columns that a prediction needs."""
    with (DATA.parent / "parallel_measurements.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows([[question.cells.get(name, "") for name in _COLUMNS] for question in rows])


def _unknown(asked: Sequence[ParallelQuestion]) -> Range:
    """The range for a source of which only the workload is known. Every source has the same weight."""
    plain = ("fused_attention", "even_stages", "tokens", "zero_stage")
    misses, weights = [], []
    for source, fit in parallel_fits().items():
        bare = SourceFit(**{name: getattr(fit, name) for name in plain})
        rows = score_parallel([question for question in asked if question.source == source], {source: bare})
        misses += [row.measured_s / row.predicted_s for row in rows]
        weights += [1.0 / len(rows)] * len(rows)
    order = np.argsort(misses)
    share = np.cumsum(np.array(weights)[order]) / np.sum(weights)
    low, high = (round(float(np.interp(at, share, np.array(misses)[order])), 4) for at in (0.1, 0.9))
    return Range(low=low, high=high, rows=len(misses))


def _size(question: ParallelQuestion) -> tuple[int, int, int]:
    model = question.model
    return model.hidden, model.layers, model.experts


def _fitted(source: str, start: SourceFit, rows: Sequence[ParallelQuestion]) -> SourceFit:
    """The best point of a grid. At each point, the factors follow from the rows."""
    tried = []
    for values in product(*_GRID[source].values()):
        fit = _with_factors(source, _changed(start, dict(zip(_GRID[source], values, strict=True))), rows)
        tried.append((_loss(source, fit, rows), fit))
        print(f"  {source} {values}: {tried[-1][0]:.4f}", flush=True)
    return min(tried, key=lambda entry: entry[0])[1]


def _changed(fit: SourceFit, values: Mapping[str, float]) -> SourceFit:
    """The constants with these values. `attention:hopper` is an entry in a table."""
    for name, value in values.items():
        table, _, key = name.partition(":")
        fit = msgspec.structs.replace(fit, **{table: {**getattr(fit, table), key: value} if key else value})
    return fit


def _with_factors(source: str, fit: SourceFit, rows: Sequence[ParallelQuestion]) -> SourceFit:
    """The factor that makes the median row of each architecture match its measurement, among rows whose time is determined by
    kernels."""
    generations = sorted({question.gpu.architecture.generation for question in rows})
    fit = msgspec.structs.replace(fit, factor={name: fit.factor.get(name, fit.factor.get("", 1.0)) for name in generations})
    for _ in range(_ROUNDS):
        faster = msgspec.structs.replace(fit, factor={name: value * 0.9 for name, value in fit.factor.items()})
        now, then = (score_parallel(rows, {source: one}) for one in (fit, faster))
        moved = {name: _missing(name, rows, now, then) for name in generations}
        fit = msgspec.structs.replace(fit, factor={name: round(fit.factor[name] * moved[name], 4) for name in generations})
    middle = float(np.exp(np.mean(np.log(list(fit.factor.values())))))
    return msgspec.structs.replace(fit, factor={**fit.factor, "": round(middle, 4)})


def _missing(generation: str, rows: Sequence[ParallelQuestion], now: Sequence[Residual], then: Sequence[Residual]) -> float:
    """By how much the factor must grow. Rows whose time kernels do not determine are ignored."""
    mine = {question.row for question in rows if question.gpu.architecture.generation == generation}
    told = [
        np.log(one.measured_s / one.predicted_s)
        for one, other in zip(now, then, strict=True)
        if one.row in mine and other.predicted_s < _DECIDED * one.predicted_s
    ]
    return float(np.exp(np.median(told))) if told else 1.0


def _loss(source: str, fit: SourceFit, rows: Sequence[ParallelQuestion]) -> float:
    misses = [abs(np.log(row.predicted_s / row.measured_s)) for row in score_parallel(rows, {source: fit})]
    return float(np.mean(np.minimum(misses, _WORST)))


def _show(title: str, rows: Sequence[Residual]) -> None:
    errors = np.array([row.predicted_s / row.measured_s - 1 for row in rows])
    best = defaultdict(list)
    for row in rows:
        best[(*row.group, row.setup[5])].append(row)
    groups = [members for members in best.values() if len(members) > 1]
    good = [_regret(members) <= 1.05 for members in groups]
    print(
        f"{title}: {len(errors)} rows, median {np.median(abs(errors)):.1%}, p90 {np.quantile(abs(errors), 0.9):.1%}, "
        f"bias {np.median(errors):+.1%}; best plan within 5 % in {sum(good)} of {len(good)} groups"
    )


def _regret(rows: Sequence[Residual]) -> float:
    """The time per sample of the plan predicted to be best, relative to that of the best plan."""
    chosen = min(rows, key=lambda row: row.predicted_s / row.samples)
    return (chosen.measured_s / chosen.samples) / min(row.measured_s / row.samples for row in rows)


if __name__ == "__main__":
    sys.exit(main())
