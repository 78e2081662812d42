"""Fits gpuwise to published measurements and writes its data files and `docs/accuracy.md`.

    GPUWISE_CACHE=… python -m tools.fit ../shared/evidence [--dry-run]
    python -m tools.fit ../shared/evidence --reports     # only the ranges of single reports, with the fits in the data files

Run from the root of the project, with timm, torchvision and pyarrow installed. Models that are not in the zoo are captured once
(half an hour for all of timm) and then read from the cache. After that, the fit takes a few minutes. It uses only rows on one
GPU.

What it writes, in `src/gpuwise`: `kernels/data/constants.json`, `step/data/stacks.json`, and in `evidence/data` the fitted part
of `procedures.json`, `ranges.json` and `left_out.json`; then `docs/accuracy.md`. With `--dry-run`, it only prints.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gpuwise.evidence.fits import Fit, left_out, shipped
from gpuwise.evidence.operators import Batch, score_operators
from gpuwise.evidence.ranges import Range
from gpuwise.evidence.score import score
from gpuwise.evidence.types import Residual
from gpuwise.kernels.types import Array

from .accuracy import write_accuracy
from .choose import choose, nested, spreads
from .curves import power_curves
from .problem import Problem
from .reports import single_reports
from .rows import operator_rows, read_batches, sampled, step_rows
from .solve import LeftOut, folds_of, leave_out, pairs_of, solve
from .widths import operator_name, operator_widths, report_ranges, step_widths
from .write import renew_ranges, write_fit, write_left_out, write_ranges

_SLOWED_BY_FLOORS = 0.005  # in the median


def _say(text: str) -> None:
    if not text.startswith("capturing") or text.split()[1].endswith("00"):
        print(f"{time.process_time():6.0f} s  {text}", flush=True)


def main(folder: Path, *, dry: bool = False) -> None:
    """Read, solve, leave out, write."""
    steps, tables = step_rows(folder, _say), read_batches(folder)
    problem = Problem(steps, operator_rows(tables, folder), power_curves(folder))
    _say(f"{problem.step_count:,} steps, {problem.single_count:,} operators, {len(problem.curve_of_row)} points of power curves")
    theta = solve(problem, say=_say)
    pairs = pairs_of(problem)
    chosen = choose(problem, theta, pairs)
    for candidate, error in chosen.errors.items():
        _say(f"{candidate}: {error:.4f}{' chosen' if candidate == chosen.candidate else ''}")
    problem.spread = spreads(problem, chosen.candidate)
    theta = solve(problem, start=theta, rounds=4, say=_say)
    _check(problem, theta)
    by_pair, _ = nested(problem, theta, pairs)
    _say("left out each source and GPU together")
    used = (
        {row.question.gpu.name for row in steps}
        | {batch.gpu.name for batch in tables}
        | {curve.gpu.name for curve in problem.curves}
    )
    by_gpu = leave_out(problem, theta, folds_of([name if name in used else None for name in problem.gpu_of_row]))
    generations = {gpu: name for name, gpus in problem.gpus_of_generation.items() for gpu in gpus}
    by_generation = leave_out(problem, theta, folds_of([generations[name] for name in problem.gpu_of_row]))
    unnamed = [None] * (len(problem.measured) - problem.step_count)
    by_family = leave_out(problem, theta, folds_of([*(row.family for row in steps), *unnamed]))
    _say("left out each GPU, generation and family")
    scored = _operators(problem, by_gpu, sampled(tables))
    widths = step_widths(problem, theta, by_gpu, by_generation, by_pair)
    ranges = widths.ranges | operator_widths(scored)

    def fit_without(gpu: str) -> Fit:
        return problem.fit_of(by_gpu.thetas.get(gpu, theta), by_gpu.gone.get(gpu))

    ranges |= report_ranges(single_reports(folder), fit_without)
    scored = [_ranged(row, ranges[operator_name(row)]) for row in scored]
    _say(f"wider by generation: {widths.scales}")
    for name, own in ranges.items():
        _say(f"{name:40} {own.low:.2f} to {own.high:.2f}  {own.rows:,} rows")
    if dry:
        return
    write_fit(problem, problem.fit_of(theta), theta)
    write_ranges(problem, ranges, widths.scales)
    write_left_out(problem, by_gpu, by_family)
    left = {"pair": by_pair, "gpu": by_gpu, "family": by_family, "generation": by_generation}
    write_accuracy(problem, theta, left, scored, widths)
    _say("written")


def renew_reports(folder: Path) -> None:
    """Derive the ranges of single reports again."""
    found = report_ranges(single_reports(folder), lambda gpu: left_out("gpu").get(gpu, shipped()))
    for name, own in found.items():
        _say(f"{name:40} {own.low:.2f} to {own.high:.2f}  {own.rows:,} rows")
    renew_ranges(found)


def _check(problem: Problem, theta: Array) -> None:
    """Check that the fit predicts the same as `gpuwise validate`, except for ops that it predicts to be faster than their GPU
    allows. Only `validate` raises those to their minimum time."""
    places = list(range(0, problem.step_count, 40))
    asked = [problem.steps[place].question for place in places]
    found = {row.row: row.predicted_s for row in score(asked, problem.fit_of(theta))}
    own = np.exp(problem.predicted(theta))
    slower = np.array([found[question.row] / own[place] - 1 for place, question in zip(places, asked, strict=True)])
    _say(f"floors slow steps by {np.mean(slower):.2%} on average, by {np.quantile(slower, 0.9):.2%} in one of ten")
    if slower.min() < -1e-6 or np.median(slower) > _SLOWED_BY_FLOORS:
        odd = [
            (asked[place].cells["source"], asked[place].cells["model"], round(float(slower[place]), 3))
            for place in np.argsort(-np.abs(slower))[:12]
        ]
        raise SystemExit(f"error: the fit does not predict what gpuwise.evidence.score predicts: {odd}")


def _ranged(row: Residual, width: Range) -> Residual:
    return replace(row, low_s=row.predicted_s * width.low, high_s=row.predicted_s * width.high)


def _operators(problem: Problem, by_gpu: LeftOut, tables: Sequence[Batch]) -> list[Residual]:
    """Predict single operators, each by the fit without its GPU."""
    found: list[Residual] = []
    for batch in tables:
        found += score_operators([batch], problem.fit_of(by_gpu.thetas[batch.gpu.name], by_gpu.gone[batch.gpu.name]))
    return found


if __name__ == "__main__":
    paths = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    if len(paths) != 1:
        sys.exit(__doc__)
    if "--reports" in sys.argv:
        renew_reports(Path(paths[0]))
    else:
        main(Path(paths[0]), dry="--dry-run" in sys.argv)
