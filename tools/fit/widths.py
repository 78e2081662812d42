"""Ranges from what leave-one-out predictions missed by: quantiles that hold 80 % of the rows of a kind of question.

A row counts less the more rows its source has on its GPU, so that a long list on one card does not decide alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from gpuwise.evidence.ranges import Range
from gpuwise.evidence.types import Residual
from gpuwise.kernels.types import Array

from .problem import BATCH_12, Problem
from .solve import LeftOut

__all__ = ["host_bound", "operator_name", "operator_widths", "step_widths"]

_LOW, _HIGH = 0.1, 0.9
_FEWEST_OF_A_PROCEDURE = 10
_MARGIN = 0.02  # at least this far from 1 on either side
_SETUP = ("source", "model", "mode", "precision", "image_or_seq", "stack", "layout", "framework_version")


def step_widths(problem: Problem, theta: Array, by_gpu: LeftOut, by_generation: LeftOut) -> dict[str, Range]:
    """The range of each kind of question about steps."""
    count = problem.step_count
    measured, weights = problem.measured[:count], _weights(problem)
    off, shared, strange = (measured - part[:count] for part in (by_gpu.predicted, by_gpu.shared, by_gpu.strange))
    new, new_strange = (measured - part[:count] for part in (by_generation.predicted, by_generation.strange))
    launch = host_bound(problem, theta)
    scripts = np.array([row.source in BATCH_12 for row in problem.steps])
    plain = ~launch & ~scripts
    found = {
        "known": _range(off, weights, plain & by_gpu.seen),
        "known_unknown_stack": _range(strange, weights, plain),
        "new_generation": _range(new, weights, plain & by_generation.seen),
        "new_generation_unknown_stack": _range(new_strange, weights, plain),
        "launch": _range(off, weights, launch & by_gpu.seen),
        "launch_unknown_stack": _range(strange, weights, launch),
        "ratio": _ratios(problem, off, across=False),
        "ratio_new_generation": _ratios(problem, new, across=True),
    }
    found = _ordered(found)
    for procedure in sorted({_procedure(problem, place) for place in range(count)}):
        rows = np.array([_procedure(problem, place) == procedure for place in range(count)])
        own, foreign = rows & by_gpu.seen, rows & ~by_gpu.seen
        if own.sum() >= _FEWEST_OF_A_PROCEDURE:
            found[procedure] = _range(off, weights, own)
        if foreign.sum() >= _FEWEST_OF_A_PROCEDURE or (own.sum() >= _FEWEST_OF_A_PROCEDURE and rows.any()):
            used = foreign if foreign.sum() >= _FEWEST_OF_A_PROCEDURE else rows
            found[f"{procedure}_unknown_stack"] = _range(shared, weights, used)
        if procedure in found and not _holds(found[f"{procedure}_unknown_stack"], found[procedure]):
            together = _range(np.where(by_gpu.seen, off, shared), weights, rows)
            found[procedure] = found[f"{procedure}_unknown_stack"] = together
    return _ordered(found)


def operator_widths(residuals: Sequence[Residual]) -> dict[str, Range]:
    """The range of each operator table and of each operator; every operator on every GPU counts alike."""
    groups = Counter((row.labels["source"], row.labels["family"], row.gpu) for row in residuals)
    weights = np.array([1 / groups[(row.labels["source"], row.labels["family"], row.gpu)] for row in residuals])
    off = np.log([row.measured_s / row.predicted_s for row in residuals])
    tables = np.array([row.labels["source"] for row in residuals])
    operators = np.array([operator_name(row) for row in residuals])
    return {name: _range(off, weights, names == name) for names in (tables, operators) for name in sorted(set(names))}


def operator_name(row: Residual) -> str:
    """The name under which an operator has a range of its own."""
    return f"{row.labels['source']}/{row.labels['family']}"


def host_bound(problem: Problem, theta: Array) -> Array:
    """Steps whose host needs longer than their GPU."""
    seconds: Array = np.sum(list(problem.gpu_seconds(theta).values()), axis=0)[: problem.step_count]
    busy = seconds * np.exp(problem.stack_factors(theta)[problem.stack_of_row])
    result: Array = problem.host_seconds(theta) > busy
    return result


def _procedure(problem: Problem, place: int) -> str:
    source, _, how = problem.steps[place].stack.split("/")
    return f"{source}/{how}"


def _weights(problem: Problem) -> Array:
    groups = Counter((row.source, row.question.gpu.name) for row in problem.steps)
    return np.array([groups[(row.source, row.question.gpu.name)] ** -0.5 for row in problem.steps])


def _range(off: Array, weights: Array, rows: Array) -> Range:
    low, high = (_quantile(off[rows], weights[rows], share) for share in (_LOW, _HIGH))
    return Range(
        low=round(float(np.exp(min(low, -_MARGIN))), 4), high=round(float(np.exp(max(high, _MARGIN))), 4), rows=int(rows.sum())
    )


def _quantile(values: Array, weights: Array, share: float) -> float:
    order = np.argsort(values)
    below = np.cumsum(weights[order]) - 0.5 * weights[order]
    return float(np.interp(share * weights.sum(), below, values[order]))


def _ratios(problem: Problem, off: Array, *, across: bool) -> Range:
    """Ratios between GPUs that ran the same thing, both ways round; `across` generations only."""
    setups: dict[tuple[str, ...], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, row in enumerate(problem.steps):
        setups[tuple(row.question.cells.get(name, "") for name in _SETUP)][row.question.gpu.name].append(place)
    errors: list[float] = []
    pairs: list[tuple[str, str]] = []
    for by_gpu in setups.values():
        middle = {name: float(np.median(off[places])) for name, places in by_gpu.items()}
        for one, two in combinations(sorted(middle), 2):
            generations = {problem.steps[by_gpu[name][0]].question.gpu.architecture.generation for name in (one, two)}
            if not across or len(generations) == 2:
                errors += [middle[one] - middle[two], middle[two] - middle[one]]
                pairs += [(one, two)] * 2
    counts = Counter(pairs)
    weights = np.array([counts[pair] ** -0.5 for pair in pairs])
    return _range(np.array(errors), weights, np.ones(len(errors), bool))


def _ordered(found: dict[str, Range]) -> dict[str, Range]:
    """What is less known never has the narrower range."""
    for name, wide in found.items():
        known = name.removesuffix("_unknown_stack")
        if known != name and known in found:
            found[name] = _wider(wide, found[known])
    for narrow, name in (
        ("ratio", "known_unknown_stack"),  # with no measurement one is never surer than with one from another GPU
        ("known", "new_generation"),
        ("known_unknown_stack", "new_generation_unknown_stack"),
        ("ratio", "ratio_new_generation"),
    ):
        found[name] = _wider(found[name], found[narrow])
    return found


def _holds(wide: Range, narrow: Range) -> bool:
    return wide.low <= narrow.low and wide.high >= narrow.high


def _wider(one: Range, other: Range) -> Range:
    return Range(low=min(one.low, other.low), high=max(one.high, other.high), rows=one.rows)
