"""Robust Gauss-Newton on a problem, whole or without some of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gpuwise.kernels.types import Array

from .problem import Problem

__all__ = ["LeftOut", "leave_out", "solve"]

_KNEE = 1.5  # sigmas beyond which a row pulls less and less: some published rows are wrong
_LONGEST = 0.3
_ENOUGH = 0.02


def solve(
    problem: Problem, *, rounds: int = 14, rows: Array | None = None, say: Callable[[str], None] = lambda text: None
) -> Array:
    """The values of the unknowns that fit the rows and the priors best."""
    theta = problem.prior.copy()
    used = np.ones(len(problem.measured)) if rows is None else rows
    for number in range(rounds):
        base, slopes = problem.jacobian(theta)
        off = base - problem.measured
        move = _step(problem, theta, off, slopes, used)
        theta = theta + move
        error = np.abs(np.expm1(off[: problem.step_count]))
        say(f"round {number}: steps off by {np.median(error):.2%}, nine in ten below {np.quantile(error, 0.9):.1%}")
        if np.abs(move).max() < _ENOUGH:
            break
    return theta


def _step(problem: Problem, theta: Array, off: Array, slopes: Array, used: Array) -> Array:
    pull = problem.weight * used / problem.sigma / np.sqrt(1 + (off / (_KNEE * problem.sigma)) ** 2)
    keep = used > 0
    scaled = slopes[keep] * pull[keep, None]
    hessian = scaled.T @ scaled + np.diag(problem.spread**-2.0)
    gradient = -scaled.T @ (off[keep] * pull[keep]) - (theta - problem.prior) / problem.spread**2
    move: Array = np.clip(np.linalg.solve(hessian, gradient), -_LONGEST, _LONGEST)
    return move


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Fits without each group of rows, and ln(seconds) of each row by the fit that has not seen its group.

    `shared` are the predictions with what a stack shares with its class and source; `strange` those with the mean of the class as
    other sources have it. `seen` says whether a row's stack has rows that were not left out.
    """

    thetas: dict[str, Array]
    gone: dict[str, Array]
    predicted: Array
    shared: Array
    strange: Array
    seen: Array


def leave_out(problem: Problem, theta: Array, labels: Sequence[str | None], rounds: int = 4) -> LeftOut:
    """For each label, a fit without its rows: a few steps along the slopes of the whole fit, then exact predictions."""
    base, slopes = problem.jacobian(theta)
    named = np.array(labels, dtype=object)
    found = [base.copy() for _ in range(3)]
    thetas, gones, seen = {}, {}, np.ones(problem.step_count, bool)
    for label in sorted({label for label in labels if label is not None}):
        gone: Array = named == label
        other = theta.copy()
        for _ in range(rounds):
            off = base - problem.measured + slopes @ (other - theta)
            other = other + _step(problem, other, off, slopes, (~gone).astype(float))
        thetas[label], gones[label] = other, gone
        seconds: Array = np.sum(list(problem.gpu_seconds(other, only=frozenset(problem.gpu_of_row[gone])).values()), axis=0)
        shared = problem.shared_factors(other)[problem.stack_of_row]
        for answer, factors in zip(found, (None, shared, _strange(problem, other)), strict=True):
            answer[gone] = problem.joined(other, seconds, factors)[gone]
        steps_gone = gone[: problem.step_count]
        seen[steps_gone] = np.isin(problem.stack_of_row, problem.stack_of_row[~steps_gone])[steps_gone]
    return LeftOut(thetas=thetas, gone=gones, predicted=found[0], shared=found[1], strange=found[2], seen=seen)


def _strange(problem: Problem, theta: Array) -> Array:
    """ln of the mean factor of a row's class of software over the sources that are not its own, each source once."""
    factors, means = problem.stack_factors(theta), np.zeros(len(problem.stacks))
    for place in range(len(problem.stacks)):
        same = problem.class_of_stack == problem.class_of_stack[place]
        own = problem.source_of_stack == problem.source_of_stack[place]
        sources = set(problem.source_of_stack[same & ~own])
        of_sources = [factors[same & (problem.source_of_stack == source)].mean() for source in sources]
        means[place] = np.mean(of_sources) if of_sources else 0.0
    result: Array = means[problem.stack_of_row]
    return result
