"""Fits gpuwise to published measurements and writes its data files and `docs/accuracy.md`.

    GPUWISE_CACHE=… python -m tools.fit ../shared/evidence [--dry-run]

Run from the root of the project, with timm, torchvision and pyarrow installed. Models that the zoo does not hold are captured
once (half an hour for all of timm) and found in the cache afterwards; then the fit takes a few minutes. Only rows on one GPU
enter it.

What it writes, in `src/gpuwise`: `kernels/data/constants.json`, `step/data/stacks.json`, and in `evidence/data` the fitted
part of `procedures.json`, `ranges.json` and `left_out.json`; then `docs/accuracy.md`. With `--dry-run` it only prints.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gpuwise.evidence.operators import Batch, score_operators
from gpuwise.evidence.ranges import Range
from gpuwise.evidence.score import score
from gpuwise.evidence.types import Residual
from gpuwise.kernels.types import Array

from .accuracy import write_accuracy
from .curves import power_curves
from .problem import Problem
from .rows import operator_rows, read_batches, sampled, step_rows
from .solve import LeftOut, leave_out, solve
from .widths import operator_name, operator_widths, step_widths
from .write import write_fit, write_left_out, write_ranges


def _say(text: str) -> None:
    if not text.startswith("capturing") or text.split()[1].endswith("00"):
        print(f"{time.process_time():6.0f} s  {text}", flush=True)


def main(folder: Path, *, dry: bool = False) -> None:
    """Read, solve, leave out, write."""
    steps, tables = step_rows(folder, _say), read_batches(folder)
    problem = Problem(steps, operator_rows(tables, folder), power_curves(folder))
    _say(f"{problem.step_count:,} steps, {problem.single_count:,} operators, {len(problem.curve_of_row)} points of power curves")
    theta = solve(problem, say=_say)
    _check(problem, theta)
    by_gpu = leave_out(problem, theta, list(problem.gpu_of_row))
    _say("left out each GPU")
    generations = {row.question.gpu.name: row.question.gpu.architecture.generation for row in steps}
    others = [*(entry.gpu for entry in problem.operators), *(curve.gpu for curve in problem.curves)]
    generations |= {gpu.name: gpu.architecture.generation for gpu in others}
    by_generation = leave_out(problem, theta, [generations[name] for name in problem.gpu_of_row])
    unnamed = [None] * (len(problem.measured) - problem.step_count)
    by_family = leave_out(problem, theta, [*(row.family for row in steps), *unnamed])
    _say("left out each generation and family")
    scored = _operators(problem, by_gpu, sampled(tables))
    ranges = step_widths(problem, theta, by_gpu, by_generation) | operator_widths(scored)
    scored = [_ranged(row, ranges[operator_name(row)]) for row in scored]
    for name, own in ranges.items():
        _say(f"{name:40} {own.low:.2f} to {own.high:.2f}  {own.rows:,} rows")
    if dry:
        return
    write_fit(problem, problem.fit_of(theta))
    write_ranges(problem, ranges)
    write_left_out(problem, by_gpu, by_family)
    write_accuracy(problem, theta, {"gpu": by_gpu, "family": by_family, "generation": by_generation}, scored, ranges)
    _say("written")


def _check(problem: Problem, theta: Array) -> None:
    """The fit must predict what `gpuwise validate` would."""
    places = list(range(0, problem.step_count, 40))
    asked = [problem.steps[place].question for place in places]
    found = {row.row: row.predicted_s for row in score(asked, problem.fit_of(theta))}
    own = np.exp(problem.predicted(theta))
    worst = max(abs(own[place] / found[question.row] - 1) for place, question in zip(places, asked, strict=True))
    _say(f"fit and score differ by at most {worst:.1e} on {len(places)} rows")
    if worst > 1e-6:
        raise SystemExit("error: the fit does not predict what gpuwise.evidence.score predicts")


def _ranged(row: Residual, width: Range) -> Residual:
    return replace(row, low_s=row.predicted_s * width.low, high_s=row.predicted_s * width.high)


def _operators(problem: Problem, by_gpu: LeftOut, tables: Sequence[Batch]) -> list[Residual]:
    """Single operators, each by the fit without its GPU."""
    found: list[Residual] = []
    for batch in tables:
        found += score_operators([batch], problem.fit_of(by_gpu.thetas[batch.gpu.name], by_gpu.gone[batch.gpu.name]))
    return found


if __name__ == "__main__":
    paths = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    if len(paths) != 1:
        sys.exit(__doc__)
    main(Path(paths[0]), dry="--dry-run" in sys.argv)
