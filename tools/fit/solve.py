"""Robust Gauss-Newton on a problem, in full or without some of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gpuwise.kernels.types import Array

from .problem import Problem

__all__ = ["Fold", "LeftOut", "folds_of", "leave_out", "pairs_of", "pull_of", "solve"]

_KNEE = 1.5  # sigmas beyond which the weight of a row falls, because some published rows are wrong
_LONGEST = 0.3
_ENOUGH = 0.02


def solve(
    problem: Problem, *, rounds: int = 14, start: Array | None = None, say: Callable[[str], None] = lambda text: None
) -> Array:
    """The values of the unknowns that fit the rows and the priors best."""
    theta = (problem.prior if start is None else start).copy()
    for number in range(rounds):
        base, slopes = problem.jacobian(theta)
        off = base - problem.measured
        move = _step(problem, theta, off, slopes, np.ones(len(off)))
        theta = theta + move
        error = np.abs(np.expm1(off[: problem.step_count]))
        say(f"round {number}: steps off by {np.median(error):.2%}, 90 % of them by less than {np.quantile(error, 0.9):.1%}")
        if np.abs(move).max() < _ENOUGH:
            break
    return theta


def pull_of(problem: Problem, off: Array) -> Array:
    """The weight of each row, given its error."""
    result: Array = problem.weight / problem.sigma / np.sqrt(1 + (off / (_KNEE * problem.sigma)) ** 2)
    return result


def _step(problem: Problem, theta: Array, off: Array, slopes: Array, used: Array) -> Array:
    pull = pull_of(problem, off) * used
    keep = used > 0
    scaled = slopes[keep] * pull[keep, None]
    hessian = scaled.T @ scaled + np.diag(problem.spread**-2.0)
    gradient = -scaled.T @ (off[keep] * pull[keep]) - (theta - problem.prior) / problem.spread**2
    move: Array = np.clip(np.linalg.solve(hessian, gradient), -_LONGEST, _LONGEST)
    return move


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Rows that a fit must not see, and the steps among them that it then predicts."""

    name: str
    gone: Array
    asked: Array


def folds_of(labels: Sequence[str | None]) -> list[Fold]:
    """One fold for each label, whose rows are left out and then predicted."""
    named = np.array(labels, dtype=object)
    masks = {label: np.asarray(named == label) for label in sorted({label for label in labels if label is not None})}
    return [Fold(name=label, gone=mask, asked=mask) for label, mask in masks.items()]


def pairs_of(problem: Problem) -> list[Fold]:
    """One fold for each source and GPU. Every row of either is left out, and the steps that belong to both are predicted."""
    others = [""] * (len(problem.measured) - problem.step_count)
    sources = np.array([*(row.source for row in problem.steps), *others], dtype=object)
    gpus = np.array(problem.gpu_of_row, dtype=object)
    found = sorted({(row.source, row.question.gpu.name) for row in problem.steps})
    return [
        Fold(name=f"{source}, {gpu}", gone=(sources == source) | (gpus == gpu), asked=(sources == source) & (gpus == gpu))
        for source, gpu in found
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Fits without the rows of each fold, and ln(seconds) of each row from the fit that has not seen it. `shared` contains
    predictions that use only what a stack shares with its class and source. `seen` says whether a row's stack has rows that were
    not left out.
    """

    thetas: dict[str, Array]
    gone: dict[str, Array]
    predicted: Array
    shared: Array
    seen: Array


def leave_out(problem: Problem, theta: Array, folds: Sequence[Fold], rounds: int = 4) -> LeftOut:
    """For each fold, a fit without its rows. It takes a few steps along the slopes of the whole fit, followed by exact
    predictions."""
    base, slopes = problem.jacobian(theta)
    predicted, shared, seen = base.copy(), base.copy(), np.ones(problem.step_count, bool)
    thetas, gones = {}, {}
    for fold in folds:
        other = theta.copy()
        for _ in range(rounds):
            off = base - problem.measured + slopes @ (other - theta)
            other = other + _step(problem, other, off, slopes, (~fold.gone).astype(float))
        thetas[fold.name], gones[fold.name] = other, fold.gone
        seconds = problem.total_seconds(other, only=frozenset(problem.gpu_of_row[fold.asked]))
        own = problem.shared_factors(other)[problem.stack_of_row]
        predicted[fold.asked] = problem.joined(other, seconds)[fold.asked]
        shared[fold.asked] = problem.joined(other, seconds, own)[fold.asked]
        gone, asked = fold.gone[: problem.step_count], fold.asked[: problem.step_count]
        seen[asked] = np.isin(problem.stack_of_row, problem.stack_of_row[~gone])[asked]
    return LeftOut(thetas=thetas, gone=gones, predicted=predicted, shared=shared, seen=seen)
