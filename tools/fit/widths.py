"""Ranges from what predictions of left-out rows missed by: quantiles that hold 80 % of the rows of a kind of question.

A range has to hold on GPUs and sources that nobody has measured yet. So each range is drawn from the rows of other GPUs (and
other sources) than those it is tested on, and stretched until that test holds 80 %, every source on every GPU counting alike.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gpuwise.evidence.ranges import Range
from gpuwise.evidence.types import Residual
from gpuwise.kernels.types import MAKERS, Array

from .problem import BATCH_12, PIPELINES, Problem
from .solve import LeftOut

__all__ = ["Widths", "host_bound", "operator_name", "operator_widths", "step_widths"]

_LOW, _HIGH, _HELD = 0.1, 0.9, 0.8
_FEWEST_OF_A_PROCEDURE = 10
_FEWEST_OF_A_GROUP = 5.0  # rows; a source on a GPU with fewer counts for less
_MARGIN = 0.02  # at least this far from 1 on either side
_STRETCHES = np.arange(1.0, 1.6, 0.02)  # at most: few groups, each unlike the others, would ask for any width
_SETUP = ("source", "model", "mode", "precision", "image_or_seq", "stack", "layout", "framework_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths:
    """The ranges by kind of question, and for each row whether ranges that were drawn without its GPU (`known`), or without its
    GPU and its source (`unknown`), hold it."""

    ranges: dict[str, Range]
    known: Array
    unknown: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """What predictions missed by, and which rows must not draw the range of which: those that share a GPU, or a GPU or source."""

    off: Array
    weights: Array
    gpus: Array
    sources: Array
    apart_from_source: bool

    def drawn(self, rows: Array) -> tuple[Range, Array]:
        """The range for these rows, stretched so that it holds on groups it was not drawn from; and which rows are held so."""
        low, high = np.zeros(len(self.off)), np.zeros(len(self.off))
        for group in {(self.sources[place], self.gpus[place]) for place in np.flatnonzero(rows)}:
            source, gpu = group
            near = (self.gpus == gpu) | (self.apart_from_source & (self.sources == source))
            others = rows & ~near if (rows & ~near).sum() >= _FEWEST_OF_A_PROCEDURE else rows
            mine = rows & (self.gpus == gpu) & (self.sources == source)
            low[mine], high[mine] = self._quantiles(others)
        weights = self.weights[rows]
        for stretch in _STRETCHES:
            held = (self.off >= stretch * low) & (self.off <= stretch * high)
            if np.average(held[rows], weights=weights) >= _HELD:
                break
        bounds = [float(np.exp(stretch * bound)) for bound in self._quantiles(rows)]
        return Range(low=round(bounds[0], 4), high=round(bounds[1], 4), rows=int(rows.sum())), held & rows

    def _quantiles(self, rows: Array) -> tuple[float, float]:
        low, high = (_quantile(self.off[rows], self.weights[rows], share) for share in (_LOW, _HIGH))
        return min(low, -_MARGIN), max(high, _MARGIN)


def step_widths(problem: Problem, theta: Array, by_gpu: LeftOut, by_generation: LeftOut, by_pair: LeftOut) -> Widths:
    """The range of each kind of question about steps."""
    count, launch = problem.step_count, host_bound(problem, theta)
    measured = problem.measured[:count]
    gpus = np.array([row.question.gpu.name for row in problem.steps], dtype=object)
    sources = np.array([row.source for row in problem.steps], dtype=object)
    groups = Counter(zip(sources, gpus, strict=True))
    weights = np.array([1.0 / max(_FEWEST_OF_A_GROUP, groups[key]) for key in zip(sources, gpus, strict=True)])

    def rows_of(predicted: Array, apart: bool) -> _Rows:
        off = measured - predicted[:count]
        return _Rows(off=off, weights=weights, gpus=gpus, sources=sources, apart_from_source=apart)

    own, strange = rows_of(by_gpu.predicted, False), rows_of(by_pair.predicted, True)
    new, shared = rows_of(by_generation.predicted, False), rows_of(by_gpu.shared, False)
    makers = np.array([row.question.gpu.vendor.lower() for row in problem.steps], dtype=object)
    programs = np.isin(sources, PIPELINES)  # what people report of their own machines says little of anyone else's
    nvidia = ~np.isin(makers, MAKERS) & ~programs
    plain = nvidia & ~launch & ~np.isin(sources, BATCH_12)
    found: dict[str, Range] = {}
    known, unknown = np.zeros(count, bool), np.zeros(count, bool)
    found["known"], held = own.drawn(plain & by_gpu.seen)
    known |= held
    found["known_unknown_stack"], held = strange.drawn(plain)
    unknown |= held
    found["new_generation"], _ = new.drawn(plain & by_generation.seen)
    found["new_generation_unknown_stack"] = _wider(found["known_unknown_stack"], found["new_generation"])
    found["launch"], held = own.drawn(nvidia & ~plain & by_gpu.seen)
    known |= held
    found["launch_unknown_stack"], held = strange.drawn(nvidia & ~plain)
    unknown |= held
    for maker in MAKERS:
        rows = (makers == maker) & ~programs
        if rows.any():
            found[maker], held = strange.drawn(rows)
            unknown |= held
            known |= held | own.drawn(rows)[1]  # asked about a known source, the wider of both ranges is given
    found["ratio"], found["ratio_new_generation"] = (
        _ratios(problem, own.off, across=False),
        _ratios(problem, new.off, across=True),
    )
    known |= unknown & ~by_gpu.seen
    found = _ordered(found)
    procedures = np.array([_procedure(problem, place) for place in range(count)], dtype=object)
    for procedure in sorted(set(procedures)):
        rows = (nvidia | programs) & (procedures == procedure)
        if (rows & by_gpu.seen).sum() >= _FEWEST_OF_A_PROCEDURE:
            found[procedure], held = own.drawn(rows & by_gpu.seen)
            known = np.where(rows & by_gpu.seen, held, known)
            unknown = np.where(rows & programs, strange.drawn(rows)[1], unknown)
            wide, held = shared.drawn(rows)
            found[f"{procedure}_unknown_stack"] = _wider(found[procedure], wide)
            known = np.where(rows & ~by_gpu.seen, held, known)
    return Widths(ranges=_ordered(found), known=known, unknown=unknown)


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
    busy = problem.total_seconds(theta)[: problem.step_count] * np.exp(problem.stack_factors(theta)[problem.stack_of_row])
    result: Array = problem.host_seconds(theta) > busy
    return result


def _procedure(problem: Problem, place: int) -> str:
    source, _, how = problem.steps[place].stack.split("/")
    return f"{source}/{how}"


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
        if row.source in PIPELINES:
            continue
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
    weights = np.array([1.0 / max(_FEWEST_OF_A_GROUP, counts[pair]) for pair in pairs])
    return _range(np.array(errors), weights, np.ones(len(errors), bool))


def _ordered(found: Mapping[str, Range]) -> dict[str, Range]:
    """What is less known never has the narrower range."""
    result = dict(found)
    for name, wide in found.items():
        known = name.removesuffix("_unknown_stack")
        if known != name and known in found:
            result[name] = _wider(wide, found[known])
    for narrow, name in (
        ("ratio", "known_unknown_stack"),  # with no measurement one is never surer than with one from another GPU
        ("known", "new_generation"),
        ("known_unknown_stack", "new_generation_unknown_stack"),
        ("ratio", "ratio_new_generation"),
    ):
        result[name] = _wider(result[name], result[narrow])
    return result


def _wider(one: Range, other: Range) -> Range:
    return Range(low=min(one.low, other.low), high=max(one.high, other.high), rows=one.rows)
