"""Chooses how far generations and sources may deviate from what they share, using only the training folds.

Each candidate is a pair of prior spreads. For a left-out fold, the candidate that best predicts the folds among the remaining
rows is used, so that no row influences its own prediction. All fits here use the slopes of the full fit (rows enter as sums over
a source, a GPU or both), which makes thousands of them cheap. The chosen one is then solved exactly.
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

_WORST = 0.7  # the maximum error of one row, in ln, because some published rows are wrong
_FEWEST = 5  # rows of a fold that form one group


@dataclass(frozen=True, slots=True)
class Candidate:
    """Spreads (in ln) of the terms for a generation and of the factor for a source."""

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
    """The contributions of each source, each GPU and each pair of them to the normal equations at a fit."""

    def __init__(self, problem: Problem, theta: Array, folds: Sequence[Fold]) -> None:
        base, slopes = problem.jacobian(theta)
        off = base - problem.measured
        pull = pull_of(problem, off)
        self.problem, self.from_prior = problem, theta - problem.prior
        self.asked = {fold.name: (off[fold.asked], slopes[fold.asked]) for fold in folds}
        sources = np.array([*(row.source for row in problem.steps), *[""] * (len(base) - problem.step_count)], dtype=object)
        gpus = np.array(problem.gpu_of_row, dtype=object)

        def summed(rows: Array) -> tuple[Array, Array]:
            scaled = slopes[rows] * pull[rows, None]
            return scaled.T @ scaled, scaled.T @ (off[rows] * pull[rows])

        self.whole = summed(np.ones(len(base), bool))
        self.of_source = {name: summed(sources == name) for name in {_pair(fold)[0] for fold in folds}}
        self.of_gpu = {name: summed(gpus == name) for name in {_pair(fold)[1] for fold in folds}}
        self.of_both = {_pair(fold): summed(fold.asked) for fold in folds}
        self._moves: dict[frozenset[str], dict[Candidate, Array]] = {}

    def off_without(self, fold: Fold, hidden: Fold | None) -> dict[Candidate, Array]:
        """The errors on the scored rows of a fold, for each candidate, if neither its rows nor the hidden ones are used."""
        gone = frozenset(fold.name for fold in (fold, hidden) if fold is not None)
        if gone not in self._moves:  # the same fit predicts either of two folds while the other one is hidden
            self._moves[gone] = self._moved({_pair(one) for one in (fold, hidden) if one is not None})
        off, slopes = self.asked[fold.name]
        return {candidate: off + slopes @ move for candidate, move in self._moves[gone].items()}

    def _moved(self, gone: set[tuple[str, str]]) -> dict[Candidate, Array]:
        sources, gpus = ({pair[place] for pair in gone} for place in (0, 1))
        twice = [self.of_both[source, gpu] for source in sources for gpu in gpus if (source, gpu) in self.of_both]
        less = [*(self.of_source[name] for name in sources), *(self.of_gpu[name] for name in gpus)]
        hessian, gradient = (
            whole - sum(part[place] for part in less) + sum(part[place] for part in twice)
            for place, whole in enumerate(self.whole)
        )
        found = {}
        for candidate in CANDIDATES:
            sure = spreads(self.problem, candidate) ** -2.0
            found[candidate] = -np.linalg.solve(hessian + np.diag(sure), gradient + self.from_prior * sure)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The candidate that predicts unseen folds best, and the error of each candidate."""

    candidate: Candidate
    errors: dict[Candidate, float]


def choose(problem: Problem, theta: Array, folds: Sequence[Fold]) -> Chosen:
    """The candidate for the shipped fit, chosen by all folds."""
    return _choose(_Sums(problem, theta, folds), folds, None)


def _choose(sums: _Sums, folds: Sequence[Fold], hidden: Fold | None) -> Chosen:
    """The candidate that best predicts the folds that share nothing with the hidden one. Every source has the same weight,
    because the next user's program is one more source, not one more row."""
    inner = [fold for fold in folds if hidden is None or not (fold.asked & hidden.gone).any()]
    folds_of_source = Counter(_pair(fold)[0] for fold in inner)
    totals, weight = dict.fromkeys(CANDIDATES, 0.0), 0.0
    for fold in inner:
        share = min(1.0, fold.asked.sum() / _FEWEST) / folds_of_source[_pair(fold)[0]]
        weight += share
        for candidate, off in sums.off_without(fold, hidden).items():
            totals[candidate] += share * float(np.minimum(np.abs(off), _WORST).mean())
    errors = {candidate: total / weight for candidate, total in totals.items()}
    return Chosen(candidate=min(errors, key=lambda one: errors[one]), errors=errors)


def _pair(fold: Fold) -> tuple[str, str]:
    source, _, gpu = fold.name.partition(", ")
    return source, gpu


def nested(problem: Problem, theta: Array, folds: Sequence[Fold]) -> tuple[LeftOut, dict[str, Candidate]]:
    """Predict every fold with a fit that saw none of its rows and whose spreads were chosen without them."""
    sums, own = _Sums(problem, theta, folds), problem.spread
    chosen = {fold.name: _choose(sums, folds, fold).candidate for fold in folds}
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
