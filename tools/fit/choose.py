"""Chooses how far generations and sources may deviate from what they share, using only the training folds.

Each candidate is a pair of prior spreads. For a left-out fold, the candidate that best predicts the folds among the remaining
rows is used, so that no row influences its own prediction. All fits here use the slopes of the full fit (rows enter as sums over
a source and a GPU), which makes thousands of them cheap; the chosen one is then solved exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuwise.kernels.types import GENERATIONS, Array

from .problem import Problem
from .solve import Fold, LeftOut, leave_out, pull_of

__all__ = ["CANDIDATES", "Chosen", "choose", "nested", "spreads"]

_WORST = 0.7  # what one row counts at most, in ln: some published rows are wrong
_FEWEST = 5  # rows of a fold that count as one group


@dataclass(frozen=True, slots=True)
class Candidate:
    """Spreads (in ln) of the terms of a generation, and of the factor of a source."""

    generation: float
    source: float


CANDIDATES = tuple(Candidate(generation, source) for generation in (0.04, 0.12) for source in (0.08, 0.16))


def spreads(problem: Problem, candidate: Candidate) -> Array:
    """The spreads of all unknowns under a candidate."""
    found: Array = problem.spread.copy()
    for place, name in enumerate(problem.names):
        kind, _, generation = name.partition(".")
        if generation in GENERATIONS:
            found[place] = candidate.generation * (0.6 if kind == "bandwidth" else 1.0)
    found[problem.at["source"]] = candidate.source
    return found


class _Sums:
    """What the rows of each source and GPU contribute to the normal equations at a fit."""

    def __init__(self, problem: Problem, theta: Array) -> None:
        base, self.slopes = problem.jacobian(theta)
        self.problem, self.theta, self.off = problem, theta, base - problem.measured
        pull = pull_of(problem, self.off)
        labels = [row.source for row in problem.steps] + [""] * (len(base) - problem.step_count)
        names = np.array([f"{label}|{gpu}" for label, gpu in zip(labels, problem.gpu_of_row, strict=True)], dtype=object)
        self.blocks = {name: np.flatnonzero(names == name) for name in dict.fromkeys(names)}
        self.hessians, self.gradients = {}, {}
        for name, rows in self.blocks.items():
            scaled = self.slopes[rows] * pull[rows, None]
            self.hessians[name], self.gradients[name] = scaled.T @ scaled, scaled.T @ (self.off[rows] * pull[rows])
        self.hessian, self.gradient = sum(self.hessians.values()), sum(self.gradients.values())

    def off_without(self, gone: Array, asked: Array, spread: Array) -> Array:
        """What the asked rows are off by when the rows that are gone do not count."""
        hessian, gradient = self.hessian + np.diag(spread**-2.0), self.gradient + (self.theta - self.problem.prior) / spread**2
        for name, rows in self.blocks.items():
            if gone[rows[0]]:  # a fold has whole blocks
                hessian, gradient = hessian - self.hessians[name], gradient - self.gradients[name]
        move = -np.linalg.solve(hessian, gradient)
        result: Array = self.off[asked] + self.slopes[asked] @ move
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The candidate that predicts unseen folds best, and how badly each candidate does."""

    candidate: Candidate
    errors: dict[Candidate, float]


def choose(problem: Problem, theta: Array, folds: Sequence[Fold]) -> Chosen:
    """The candidate for the fit that is shipped, by all folds."""
    return _choose(_Sums(problem, theta), folds, np.zeros(len(problem.measured), bool))


def _choose(sums: _Sums, folds: Sequence[Fold], hidden: Array) -> Chosen:
    """The candidate that predicts best the folds that are not hidden, each source counting once: the next user's program is one
    more source, not one more row."""
    errors = {}
    inner = [fold for fold in folds if not (fold.asked & hidden).any()]
    folds_of_source = Counter(_source(fold) for fold in inner)
    for candidate in CANDIDATES:
        spread, total, weight = spreads(sums.problem, candidate), 0.0, 0.0
        for fold in inner:
            off = sums.off_without(fold.gone | hidden, fold.asked, spread)
            share = min(1.0, len(off) / _FEWEST) / folds_of_source[_source(fold)]
            total, weight = total + share * float(np.minimum(np.abs(off), _WORST).mean()), weight + share
        errors[candidate] = total / weight
    return Chosen(candidate=min(errors, key=lambda one: errors[one]), errors=errors)


def _source(fold: Fold) -> str:
    return fold.name.split(", ")[0]


def nested(problem: Problem, theta: Array, folds: Sequence[Fold]) -> tuple[LeftOut, dict[str, Candidate]]:
    """Every fold predicted by a fit that saw none of its rows and whose spreads were chosen without them."""
    sums, own = _Sums(problem, theta), problem.spread
    chosen = {fold.name: _choose(sums, folds, fold.gone).candidate for fold in folds}
    parts = []
    for candidate in dict.fromkeys(chosen.values()):
        problem.spread = spreads(problem, candidate)
        parts.append(leave_out(problem, theta, [fold for fold in folds if chosen[fold.name] == candidate]))
    problem.spread = own
    found = parts[0]
    for part in parts[1:]:
        places = np.zeros(len(problem.measured), bool)
        for name in part.thetas:
            places |= next(fold.asked for fold in folds if fold.name == name)
        steps = places[: problem.step_count]
        found = replace(
            found,
            thetas=found.thetas | part.thetas,
            gone=found.gone | part.gone,
            predicted=np.where(places, part.predicted, found.predicted),
            shared=np.where(places, part.shared, found.shared),
            seen=np.where(steps, part.seen, found.seen),
        )
    return found, chosen
