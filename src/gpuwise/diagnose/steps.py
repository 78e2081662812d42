"""Finds where steps begin and end: from the profiler's marks, or else the loader's or the optimizer's, or else the whole span;
and reports which was used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpuwise.trace.types import Events, Kind, Mask, Trace

__all__ = ["LOADER", "OPTIMIZER", "Steps", "find_steps", "only_whole"]

LOADER = ("enumerate(dataloader)", "iteratorgetnext", "dataloader_next", "_next_data")
OPTIMIZER = ("optimizer.step#",)
_PROFILER = ("profilerstep",)
_STEP_WORDS = re.compile(
    r"(?:^|[^a-z])(?:step|iter|iteration)(?![a-z])|(?:^|[^a-z])batch[ _#\[:]*\d|(?:train(?:ing)?|global)_batch|^trainstep"
    r"|^execute_(?:model|context)|(?:run|forward)_batch(?![a-z])",
    re.IGNORECASE,
)
_MICRO = re.compile(r"micro|mini|inner|sub|accum", re.IGNORECASE)
_WHOLE_RUNS = re.compile(r"epoch|fit(?![a-z])|loop|run(?![a-z])|train(?:ing)?$|eval|valid|main", re.IGNORECASE)
_NOT_STEPS = re.compile(r"micro|optim|sched|zero_grad|backward|forward(?!_batch)|loss", re.IGNORECASE)
_PARTS = re.compile(
    r"layer|block|module|attention|attn|mlp|conv|linear|norm|embed|expert|nccl|reduce|gather|profiler|cuda|::", re.IGNORECASE
)
_NUMBERS = re.compile(r"(?<=\w)[ ]?[\[(#].*|\d+")
_FEWEST_MARKS = 2
_BETWEEN = 0.05  # of a mark: a longer gap to the next one is a part of the step
_COVERED = 0.5  # of the work, by marks that a person set
_WARM_UP_RATIO = 1.25
_WARM_UP_FADES = 2  # times as long as the next, and that as the usual step; assumed
_WARM_UP_OF_TWO = 3  # times as long as the second of two
_LONGEST_RATIO = 1.05  # a first step that is like other long ones is not warm-up
_CUT_RATIO = 0.5
_OTHERS = 3  # steps after a first one that is left out because it is short
_REPEATS = 4
_SHORTEST = 4  # kernels; shorter sequences repeat inside a step
_FILLED = 0.9
_GAP = 1.5  # times the usual distance between two layers
_LAYERS = 8  # fewer repeats between two gaps are steps, some of them longer
_ALIKE = 0.9
_WHOLE = 0.98  # of the work that whole steps have

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The steps of a trace, and which of them count as steady. For a truncated file, only those known to be complete are
    listed; `lost_count` others were begun.
    """

    start_ns: Times
    end_ns: Times
    steady: Mask
    by: str
    notes: tuple[str, ...] = ()
    lost_count: int = 0

    @property
    def window(self) -> tuple[int, int]:
        """From the start of the first to the end of the last step."""
        return int(self.start_ns[0]), int(self.end_ns[-1])

    @property
    def steady_window(self) -> tuple[int, int]:
        """The same without warm-up and a cut last step."""
        return int(self.start_ns[self.steady][0]), int(self.end_ns[self.steady][-1])

    @property
    def steady_count(self) -> int:
        return int(self.steady.sum())

    @property
    def median_s(self) -> float:
        """The median step, without a truncated last one."""
        lengths = self.end_ns - self.start_ns
        if len(lengths) == 2:
            lengths = lengths[self.steady]
        whole = lengths[:-1] if self._last_is_cut(lengths) else lengths
        return float(np.median(whole)) * 1e-9

    @property
    def marked(self) -> bool:
        """Whether there are steps at all, rather than one span."""
        return self.by != "span"

    @staticmethod
    def _last_is_cut(lengths: Times) -> bool:
        if len(lengths) < 3:
            return False
        return bool(lengths[-1] < _CUT_RATIO * lengths[:-1].min())


def find_steps(trace: Trace, work: Events) -> Steps:
    """Find the steps by the best marks available. `work` is what ran on the selected device."""
    for by, rows in (
        ("profiler", _outermost(trace.marked(*_PROFILER))),
        ("steps line", _device_steps(trace, work)),
    ):
        if len(rows):
            return _without_first_of_two(_steps(rows.start_ns, rows.end_ns, by), work)
    rows = _marked_steps(trace, work, _is_step, least=_FEWEST_MARKS)
    if len(rows):
        return _from_start_to_start(_enclosing(trace, rows))
    for by, words in (("loader", LOADER), ("optimizer", OPTIMIZER)):
        rows = _outermost(trace.marked(*words))
        if len(rows) >= 3:
            return _steps(rows.start_ns[:-1], rows.start_ns[1:], by)
    rows = _marked_steps(trace, work, lambda name: not _PARTS.search(name), least=_REPEATS)
    if len(rows):
        return _from_start_to_start(_enclosing(trace, rows))
    starts = _repeats(work)
    if len(starts) >= _REPEATS:
        return _steps(starts[:-1], starts[1:], "kernels")
    begin, end = (int(work.start_ns.min()), int(work.end_ns.max())) if len(work) else (0, 1)
    return _steps(np.array([begin]), np.array([max(end, begin + 1)]), "span")


def _without_first_of_two(steps: Steps, work: Events) -> Steps:
    """Handle two steps of which the first is warm-up: it takes several times as long, for hardly more work. With much less work,
    the second would have been cut short instead."""
    lengths = steps.end_ns - steps.start_ns
    if len(lengths) != 2 or lengths[0] < _WARM_UP_OF_TWO * lengths[1]:
        return steps
    began = np.searchsorted(work.start_ns, np.concatenate([steps.start_ns, [steps.end_ns[-1]]]))
    first, second = np.diff(began).tolist()
    if second < _ALIKE * first:
        return steps
    note = f"the first step ({lengths[0] * 1e-6:,.1f} ms) is left out because it is warm-up"
    return replace(steps, steady=np.array([False, True]), notes=(*steps.notes, note))


def only_whole(steps: Steps, called_ns: Times) -> Steps | None:
    """For a file whose events are missing from some time on, or in places: return the longest run of complete steps.
    `called_ns` is when each piece of work was launched.

    Complete steps contain the same work, so two steps with equal work count as complete, and so do all with no less. If all steps
    differ, none is known to be complete: None. A step after an incomplete one is left out too, because the device may still have
    worked on that one.
    """
    moments = np.sort(called_ns)
    held = np.searchsorted(moments, steps.end_ns) - np.searchsorted(moments, steps.start_ns)
    least_to_most = np.sort(held[held > 0])
    alike = least_to_most[1:][least_to_most[:-1] >= _WHOLE * least_to_most[1:]]
    if not steps.marked or not len(alike):
        return None
    whole = held >= _WHOLE * alike[-1]
    whole[1:] &= whole[:-1].copy()
    edges = np.flatnonzero(np.diff(np.concatenate([[False], whole, [False]])))
    first, last = max(
        zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True), key=lambda row: row[1] - row[0], default=(0, 0)
    )
    if first == last:
        return None
    kept = _steps(steps.start_ns[first:last], steps.end_ns[first:last], steps.by)
    return replace(kept, lost_count=len(whole) - (last - first))


def _repeats(work: Events) -> Times:
    """Return where the same sequence of kernels begins again and again: the starts of a kernel that occurs once in each.

    Only consecutive equal sequences count, and only if they fill what was recorded on the busiest stream. Layers repeat as well,
    so the longest sequence is used, and none with other kernels between its repeats.
    """
    kernels = work.where(work.kind == Kind.KERNEL)
    if len(kernels) < _REPEATS * _SHORTEST:
        return kernels.start_ns[:0]
    streams, place = np.unique(kernels.stream, return_inverse=True)
    kernels = kernels.where(kernels.stream == streams[np.bincount(place.reshape(-1), weights=kernels.duration_ns).argmax()])
    names, first, counts = np.unique(kernels.name, return_index=True, return_counts=True)
    for row in np.lexsort((first, counts)).tolist():
        found = np.flatnonzero(kernels.name == names[row])
        if len(found) >= _REPEATS and _is_whole_step(kernels, found):
            return _between_gaps(kernels.start_ns[found])
    return kernels.start_ns[:0]


def _is_whole_step(kernels: Events, found: npt.NDArray[np.intp]) -> bool:
    """Return whether steps begin at these kernels."""
    gaps = np.diff(found)
    period = int(np.median(gaps))
    starts = kernels.start_ns[found]
    reached = starts[-1] + np.median(np.diff(starts)) - starts[0]
    if period < _SHORTEST or reached < _FILLED * (kernels.end_ns.max() - kernels.start_ns[0]):
        return False
    if len(found) > _REPEATS and gaps[0] > period:  # the first one may tune its kernels
        found, gaps = found[1:], gaps[1:]
    pattern = kernels.name[found[0] : found[0] + period]
    alike = [np.array_equal(kernels.name[at : at + period], pattern) for at in found[:-1].tolist()]
    if np.mean(alike) < _ALIKE or (gaps == period).mean() < _ALIKE:
        return False
    return not _are_layers(kernels.name, found, period)


def _between_gaps(starts: Times) -> Times:
    """Return the starts of the steps if each is a fixed number of equal layers, with a longer gap before the next step."""
    lengths = np.diff(starts)
    after = np.flatnonzero(lengths > _GAP * np.median(lengths)) + 1
    strides = np.diff(after)
    if len(after) < _REPEATS - 1 or np.median(strides) < _LAYERS or (strides == np.median(strides)).mean() < _ALIKE:
        return starts
    first = [0] if after[0] == np.median(strides) else []
    return np.asarray(starts[np.concatenate([first, after]).astype(np.intp)], dtype=np.int64)


def _are_layers(names: npt.NDArray[np.int32], found: npt.NDArray[np.intp], period: int) -> bool:
    """Return whether other kernels run between the repeats, or before and after them, like embeddings and heads around layers."""
    pattern = names[found[0] : found[0] + period]
    breaks = found[:-1][np.diff(found) > period]
    between = [names[at + period : at + period + 1] for at in breaks.tolist()]
    if between and not np.isin(np.concatenate(between), pattern).all():
        return True
    before, after = names[: found[0]], names[found[-1] + period :]
    return bool(len(before) and len(after) and not np.isin(before, pattern).all() and not np.isin(after, pattern).all())


def _marked_steps(trace: Trace, work: Events, is_wanted: Callable[[str], bool], least: int) -> Events:
    """Return the ranges with one name, ignoring numbers, that a program marked: of those that cover the work, the rarest."""
    marks = trace.events.of(Kind.MARK)
    span = max(int(work.end_ns.max() - work.start_ns.min()), 1) if len(work) else 1
    found = [_outermost(marks.where(np.isin(marks.name, numbers))) for numbers in _families(trace, marks, is_wanted)]
    found = [rows for rows in found if len(rows) >= least and rows.end_ns[-1] - rows.start_ns[0] >= _COVERED * span]
    return min(
        found, key=lambda rows: (len(rows), -int(rows.duration_ns.sum())), default=marks.where(np.zeros(len(marks), dtype=bool))
    )


def _families(trace: Trace, marks: Events, is_wanted: Callable[[str], bool]) -> list[list[int]]:
    """Group the names of marks that differ only in their numbers."""
    families: dict[str, list[int]] = {}
    for number in np.unique(marks.name).tolist():
        if is_wanted(trace.names[number]):
            families.setdefault(_NUMBERS.sub("", trace.names[number]).strip(), []).append(number)
    return list(families.values())


def _enclosing(trace: Trace, rows: Events) -> Events:
    """Return the marks of one name around these, if those are the steps: each contains the same number of inner ones, and the
    optimizer steps as often as they do, or the inner ones are named as parts of a batch.
    """
    marks = trace.events.of(Kind.MARK)
    marks = marks.where((marks.thread == rows.thread[0]) & (marks.duration_ns > int(rows.duration_ns.min())))
    updates = len(_outermost(trace.marked(*OPTIMIZER)))
    small = any(_MICRO.search(trace.names[number]) for number in np.unique(rows.name).tolist())
    for numbers in _families(trace, marks, lambda name: not _PARTS.search(name) and not _WHOLE_RUNS.search(name)):
        outer = _outermost(marks.where(np.isin(marks.name, numbers)))
        if len(outer) < _FEWEST_MARKS or len(outer) >= len(rows):
            continue
        place = np.searchsorted(outer.start_ns, rows.start_ns, side="right") - 1
        inside = (place >= 0) & (rows.end_ns <= outer.end_ns[np.maximum(place, 0)])
        held = np.bincount(place[inside], minlength=len(outer))
        alike = held.min() >= 2 and held.min() == held.max() and inside.sum() >= len(rows) - held[0]
        if alike and (abs(len(outer) - updates) < abs(len(rows) - updates) if updates else small):
            return outer
    return rows


def _is_step(name: str) -> bool:
    return bool(_STEP_WORDS.search(name)) and not _NOT_STEPS.search(name)


def _from_start_to_start(rows: Events) -> Steps:
    """Return steps that begin with these marks. The time between two marks also belongs to the step."""
    between = float(np.median(rows.start_ns[1:] - rows.end_ns[:-1]))
    if between > _BETWEEN * float(np.median(rows.duration_ns)):  # the last step lacks the time after its mark
        return _steps(rows.start_ns[:-1], rows.start_ns[1:], "marks")
    return _steps(rows.start_ns, np.append(rows.start_ns[1:], rows.end_ns[-1]), "marks")


def _device_steps(trace: Trace, work: Events) -> Events:
    rows = trace.events.of(Kind.STEP)
    if not len(work):
        return rows.where(np.zeros(len(rows), dtype=bool))
    return _outermost(rows.where(rows.device == work.device[0]))


def _outermost(rows: Events) -> Events:
    """Remove those inside another one (nested steps), using the thread that has most of them."""
    if len(rows) < 2:
        return rows
    rows = rows.where(rows.thread == np.bincount(rows.thread).argmax())
    reach = np.maximum.accumulate(rows.end_ns)
    return rows.where(np.concatenate([[True], rows.end_ns[1:] > reach[:-1]]) & (rows.duration_ns > 0))


def _steps(start: Times, end: Times, by: str) -> Steps:
    lengths = end - start
    steady = np.ones(len(start), dtype=bool)
    notes = []
    if count := _warm_up_count(lengths):
        steady[:count] = False
        took = ", ".join(f"{length * 1e-6:,.1f}" for length in lengths[:count].tolist())
        first = "the first step ({} ms) is" if count == 1 else f"the first {count} steps ({{}} ms) are"
        notes.append(f"{first.format(took)} left out because {'it is' if count == 1 else 'they are'} warm-up")
    elif _begins_short(lengths):
        steady[0] = False
        notes.append(f"the first step ({lengths[0] * 1e-6:,.1f} ms) is left out because it is much shorter than the others")
    if Steps._last_is_cut(lengths):
        steady[-1] = False
        notes.append("the last step is left out because it was cut short")
    return Steps(start_ns=start, end_ns=end, steady=steady, by=by, notes=tuple(notes))


def _begins_short(lengths: Times) -> bool:
    """Return whether the first step is much shorter than all others, as it is on the host's clock while the queue fills."""
    others = lengths[1:-1] if Steps._last_is_cut(lengths) else lengths[1:]
    return len(others) >= _OTHERS and bool(lengths[0] < _CUT_RATIO * others.min())


def _warm_up_count(lengths: Times) -> int:
    """Return how many steps at the beginning are warm-up: the first if it is longer than all that follow, and a few more if each
    is several times as long as the usual step that follows it (programs compile and choose kernels in more than one step), or
    twice as long if the one before it is longer by as much.
    """
    count = 0
    while len(lengths) - count >= 3 and count <= len(lengths) // 4:
        rest, ratio = lengths[count + 1 :], _WARM_UP_RATIO
        if count:
            ratio = _WARM_UP_FADES if lengths[count - 1] >= _WARM_UP_FADES * lengths[count] else _WARM_UP_OF_TWO
        if lengths[count] <= max(ratio * float(np.median(rest)), _LONGEST_RATIO * float(rest.max())):
            break
        count += 1
    return count
