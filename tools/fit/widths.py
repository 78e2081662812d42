"""Derives ranges from the errors on left-out rows: quantiles that contain 80% of the rows for a kind of question. A range must
also be valid for GPUs and sources that nobody has measured yet. Each range is therefore derived from rows of other GPUs (and
other sources) than those it is tested on, and widened until it contains 80% of the test rows. For known sources, every GPU has
the same weight. For unknown ones, every source has the same weight, because the next program is one more source and most of the
range comes from the spread between sources. Generations with larger errors than others have wider ranges, as far as their rows
support that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gpuwise.evidence.e2e import Question
from gpuwise.evidence.fits import Fit
from gpuwise.evidence.ranges import Range
from gpuwise.evidence.score import score
from gpuwise.evidence.types import Residual
from gpuwise.kernels.types import MAKERS, Array

from .problem import BATCH_12, PIPELINES, Problem
from .solve import LeftOut

__all__ = ["Widths", "host_bound", "operator_name", "operator_widths", "report_ranges", "step_widths"]

_LOW, _HIGH, _HELD = 0.1, 0.9, 0.8
_FEWEST_OF_A_PROCEDURE = 10
_FEWEST_OF_A_GROUP = 5.0  # rows; a source with fewer rows on a GPU has less weight
_MARGIN = 0.02  # at least this far from 1 on either side
_HELD_OF_ROWS = 0.76  # the minimum, even if many rows come from one source
_STRETCHES = np.arange(0.7, 2.2, 0.02)  # the maximum, because a few dissimilar groups could require any width
_STRETCHES_KNOWN = np.arange(0.7, 1.6, 0.02)  # a source has fewer groups than there are sources
_WIDEST_SCALE = 2.0
_T_OVER_Z = {2: 2.40, 3: 1.47, 4: 1.28, 5: 1.20, 6: 1.15, 8: 1.10, 10: 1.08}  # 90% quantiles by number of sources
_PRIOR_GROUPS = 2.0  # number of source and GPU pairs at which a generation's own width has half of the weight
_SETUP = ("source", "model", "mode", "precision", "image_or_seq", "stack", "layout", "framework_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths:
    """The ranges by kind of question, how many times as wide they are for a generation, and for each row whether it is inside the
    range that was derived without its GPU (`known`), or without its GPU and its source (`unknown`)."""

    ranges: dict[str, Range]
    scales: dict[str, dict[str, float]]
    known: Array
    unknown: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tested:
    """The error of each row, and the bounds of a range that was derived without its group, in ln."""

    off: Array
    low: Array
    high: Array

    def put(self, rows: Array, other: _Tested) -> None:
        """Take the values for these rows from another test."""
        for name in ("off", "low", "high"):
            getattr(self, name)[rows] = getattr(other, name)[rows]

    def around(self, other: _Tested) -> _Tested:
        """The same rows with ranges that contain both ranges."""
        return _Tested(off=self.off, low=np.minimum(self.low, other.low), high=np.maximum(self.high, other.high))

    def missed(self) -> Array:
        """The position of each row in its range, where 1 is the end."""
        result: Array = np.where(
            self.off > 0, self.off / np.maximum(self.high, _MARGIN), self.off / np.minimum(self.low, -_MARGIN)
        )
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """The errors of predictions, and which rows must not be used for the range of which others, because they share a GPU, or a
    GPU or source."""

    off: Array
    weights: Array
    gpus: Array
    sources: Array
    apart_from_source: bool

    def near(self, source: str, gpu: str) -> Array:
        """Rows that must not be used for the range of this group."""
        result: Array = (self.gpus == gpu) | (self.apart_from_source & (self.sources == source))
        return result

    def groups(self, rows: Array) -> list[tuple[str, str]]:
        """Each source on each GPU among these rows."""
        return sorted({(self.sources[place], self.gpus[place]) for place in np.flatnonzero(rows)})

    def drawn(self, rows: Array, least: float = 0.0) -> tuple[Range, _Tested]:
        """The range for these rows, widened by at least a given factor until it is valid for groups that it was not derived from,
        and the result of that test."""
        low, high = np.zeros(len(self.off)), np.zeros(len(self.off))
        for source, gpu in self.groups(rows):
            others = rows & ~self.near(source, gpu)
            others = others if others.sum() >= _FEWEST_OF_A_PROCEDURE else rows
            mine = rows & (self.gpus == gpu) & (self.sources == source)
            low[mine], high[mine] = self._quantiles(others)
        weights = self.weights[rows]
        for stretch in _STRETCHES if self.apart_from_source else _STRETCHES_KNOWN:
            held = ((self.off >= stretch * low) & (self.off <= stretch * high))[rows]
            if stretch >= least and np.average(held, weights=weights) >= _HELD and np.mean(held) >= _HELD_OF_ROWS:
                break
        bounds = [float(np.exp(stretch * bound)) for bound in self._quantiles(rows)]
        found = Range(low=round(bounds[0], 4), high=round(bounds[1], 4), rows=int(rows.sum()))
        return found, _Tested(off=self.off, low=stretch * low, high=stretch * high)

    def _quantiles(self, rows: Array) -> tuple[float, float]:
        low, high = (_quantile(self.off[rows], self.weights[rows], share) for share in (_LOW, _HIGH))
        return min(low, -_MARGIN), max(high, _MARGIN)

    def scaled(self, tested: _Tested, generations: Array) -> tuple[Array, dict[str, float]]:
        """Which rows are inside their ranges, after widening based on other GPUs in their generation, and the width for each
        generation."""
        missed, held = tested.missed(), np.zeros(len(self.off), bool)
        for source, gpu in self.groups(np.ones(len(self.off), bool)):
            mine = (self.sources == source) & (self.gpus == gpu)
            for name in set(generations[mine]):
                others = (generations == name) & ~self.near(source, gpu)
                held[mine] = missed[mine] <= self._scale(missed, others)
        names = sorted(set(generations))
        found = {name: round(self._scale(missed, generations == name), 3) for name in names}
        return held, {name: scale for name, scale in found.items() if scale > 1.0}

    def _scale(self, missed: Array, rows: Array) -> float:
        """How many times as wide a range must be for these rows, shrunk towards 1 if there are few groups."""
        if not rows.any():
            return 1.0
        own = np.log(max(_quantile(missed[rows], self.weights[rows], _HELD), _MARGIN))
        count = len(self.groups(rows))
        return float(np.clip(np.exp(own * count / (count + _PRIOR_GROUPS)), 1.0, _WIDEST_SCALE))


def step_widths(problem: Problem, theta: Array, by_gpu: LeftOut, by_generation: LeftOut, by_pair: LeftOut) -> Widths:
    """The range of each kind of question about steps."""
    views = {"own": by_gpu.predicted, "strange": by_pair.predicted, "new": by_generation.predicted, "shared": by_gpu.shared}
    drawing = _Drawing(problem, theta, views, by_gpu.seen)
    drawing.usual()
    drawing.makers()
    drawing.known_sources()
    found, new = drawing.found, drawing.rows["new"]
    found["new_generation"], _ = new.drawn(drawing.plain & by_generation.seen)
    found["new_generation_unknown_stack"] = _wider(found["known_unknown_stack"], found["new_generation"])
    found["ratio"] = _ratios(problem, drawing.rows["own"].off, across=False)
    found["ratio_new_generation"] = _ratios(problem, new.off, across=True)
    found |= _ordered(found)
    drawing.procedures()
    generations = np.array([row.question.gpu.architecture.generation for row in problem.steps], dtype=object)
    known, known_scales = drawing.rows["own"].scaled(drawing.known, generations)
    unknown, unknown_scales = drawing.rows["strange"].scaled(drawing.unknown, generations)
    scales = {"known": known_scales, "unknown": unknown_scales}
    return Widths(ranges=_ordered(found), scales=scales, known=known, unknown=unknown)


class _Drawing:
    """Derives the ranges for one kind of rows after the other, and keeps the strictest test for each row."""

    def __init__(self, problem: Problem, theta: Array, views: Mapping[str, Array], seen: Array) -> None:
        count = problem.step_count
        self.sources = np.array([row.source for row in problem.steps], dtype=object)
        gpus = np.array([row.question.gpu.name for row in problem.steps], dtype=object)
        by_group, by_source = _weights(self.sources, gpus)
        self.rows = {
            name: _Rows(
                off=problem.measured[:count] - predicted[:count],
                weights=by_source if name == "strange" else by_group,
                gpus=gpus,
                sources=self.sources,
                apart_from_source=name == "strange",
            )
            for name, predicted in views.items()
        }
        self.seen = seen
        self.maker = np.array([row.question.gpu.vendor.lower() for row in problem.steps], dtype=object)
        self.programs = np.isin(self.sources, PIPELINES)  # reports from people's own machines say little about other machines
        self.nvidia = ~np.isin(self.maker, MAKERS) & ~self.programs
        self.plain = self.nvidia & ~host_bound(problem, theta) & ~np.isin(self.sources, BATCH_12)
        self.procedure = np.array([_procedure(problem, place) for place in range(count)], dtype=object)
        self.found: dict[str, Range] = {}
        self.known, self.unknown = (
            _Tested(off=np.zeros(count), low=np.zeros(count), high=np.zeros(count)) for _ in ("known", "unknown")
        )

    def usual(self) -> None:
        """Sources that nobody has measured, on NVIDIA's GPUs."""
        for name, rows in (("known", self.plain), ("launch", self.nvidia & ~self.plain)):
            self.found[f"{name}_unknown_stack"], tested = self.rows["strange"].drawn(rows)
            self.unknown.put(rows, tested)

    def makers(self) -> None:
        """GPUs from other vendors. For a known source, the wider of both ranges is used. Few people measured these GPUs, and the
        next one may differ more than these do."""
        for maker in MAKERS:
            rows = (self.maker == maker) & ~self.programs
            if rows.any():
                self.found[maker], tested = self.rows["strange"].drawn(rows, _for_few(len(set(self.sources[rows]))))
                self.unknown.put(rows, tested)
                self.known.put(rows, self.rows["own"].drawn(rows)[1].around(tested))

    def known_sources(self) -> None:
        """Sources that were measured on other GPUs. Software that was not is treated as unknown."""
        self.known.put(~self.seen, self.unknown)
        for name, rows in (("known", self.plain), ("launch", self.nvidia & ~self.plain)):
            self.found[name], tested = self.rows["own"].drawn(rows & self.seen)
            self.known.put(rows & self.seen, tested)

    def procedures(self) -> None:
        """Sources and execution modes with enough rows for their own range."""
        for procedure in sorted(set(self.procedure)):
            rows = (self.nvidia | self.programs) & (self.procedure == procedure)
            if (rows & self.seen).sum() < _FEWEST_OF_A_PROCEDURE:
                continue
            self.found[procedure], tested = self.rows["own"].drawn(rows & self.seen)
            self.known.put(rows & self.seen, tested)
            if (rows & self.programs).any():
                self.unknown.put(rows & self.programs, self.rows["strange"].drawn(rows)[1])
            wide, tested = self.rows["shared"].drawn(rows)
            self.found[f"{procedure}_unknown_stack"] = _wider(self.found[procedure], wide)
            self.known.put(rows & ~self.seen, tested)


def _weights(sources: Array, gpus: Array) -> tuple[Array, Array]:
    """The weight of each row if every pair of source and GPU has the same weight, and if every source has."""
    groups = Counter(zip(sources, gpus, strict=True))
    of_source = Counter(source for source, _ in groups)
    by_group = np.array([1.0 / max(_FEWEST_OF_A_GROUP, groups[key]) for key in zip(sources, gpus, strict=True)])
    return by_group, by_group / np.array([of_source[source] for source in sources])


def operator_widths(residuals: Sequence[Residual]) -> dict[str, Range]:
    """The range of each operator table and of each operator. Every pair of operator and GPU has the same weight."""
    groups = Counter((row.labels["source"], row.labels["family"], row.gpu) for row in residuals)
    weights = np.array([1 / groups[(row.labels["source"], row.labels["family"], row.gpu)] for row in residuals])
    off = np.log([row.measured_s / row.predicted_s for row in residuals])
    tables = np.array([row.labels["source"] for row in residuals])
    operators = np.array([operator_name(row) for row in residuals])
    return {name: _range(off, weights, names == name) for names in (tables, operators) for name in sorted(set(names))}


def report_ranges(asked: Mapping[str, Sequence[Question]], fit_without: Callable[[str], Fit]) -> dict[str, Range]:
    """The range of a single person's report, on GPUs from NVIDIA and from other makers. The reports for each GPU are predicted by
    the fit without it.
    """
    found = [row for gpu, members in asked.items() for row in score(members, fit_without(gpu))]
    gpus = np.array([row.gpu for row in found], dtype=object)
    sources = np.array([row.labels["source"] for row in found], dtype=object)
    rows = _Rows(
        off=np.log([row.measured_s / row.predicted_s for row in found]),
        weights=_weights(sources, gpus)[0],
        gpus=gpus,
        sources=sources,
        apart_from_source=False,
    )
    nvidia = np.array([asked[gpu][0].gpu.vendor == "NVIDIA" for gpu in gpus])
    kinds = {"report": nvidia, "report_other_maker": ~nvidia}
    return {name: rows.drawn(held)[0] for name, held in kinds.items() if held.any()}


def operator_name(row: Residual) -> str:
    """The name under which an operator has its own range."""
    return f"{row.labels['source']}/{row.labels['family']}"


def host_bound(problem: Problem, theta: Array) -> Array:
    """Steps in which the host takes longer than the GPU."""
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
    """Ratios between NVIDIA GPUs that ran the same thing, in both directions; with `across`, only between generations. GPUs from
    other vendors have their own ranges, and if many people measured on their own machines, the hosts differ as well."""
    setups: dict[tuple[str, ...], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, row in enumerate(problem.steps):
        if row.source in (*PIPELINES, *BATCH_12) or row.question.gpu.vendor.lower() in MAKERS:
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
    """The less that is known, the wider the range."""
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


def _for_few(count: int) -> float:
    """The minimum factor by which a range from few sources is widened, because their spread is itself uncertain (Student's t)."""
    return next(times for least, times in sorted(_T_OVER_Z.items(), reverse=True) if least <= max(count, 2))


def _wider(one: Range, other: Range) -> Range:
    return Range(low=min(one.low, other.low), high=max(one.high, other.high), rows=one.rows)
