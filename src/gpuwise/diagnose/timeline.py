"""One step from left to right: what ran on the device and what the host did meanwhile, coarse enough to draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuwise.diagnose import classes
from gpuwise.diagnose.intervals import Spans
from gpuwise.diagnose.scene import Scene
from gpuwise.trace.types import Events, Kind, Mask

__all__ = ["Lane", "LaneSpan", "Timeline", "timeline"]

_MOST_SPANS = 300
_FINEST = 1 / 2000  # of a step; shorter gaps are not visible
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSpan:
    """Work of one kind without a visible gap; `name` is its longest piece."""

    start_s: float
    seconds: float
    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """What one unit of the device did, or one activity of the host."""

    name: str
    spans: tuple[LaneSpan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The steady step of median length. `joined` pieces were too close to others to be drawn separately."""

    step_s: float
    joined: int
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    start: int
    end: int
    kind: str
    name: str


def timeline(scene: Scene, idle: Mapping[str, Spans], finer: int = 1) -> Timeline | None:
    """Return one typical step, or None if no steps were found. `idle` is when the device did nothing, by cause; `finer` times
    as many spans are kept separate.
    """
    steps = scene.steps
    if not steps.marked or not len(scene.work):
        return None
    starts, ends = steps.start_ns[steps.steady], steps.end_ns[steps.steady]
    place = int(np.argsort(ends - starts, kind="stable")[(len(starts) - 1) // 2])
    begin, end = int(starts[place]), int(ends[place])
    talk = scene.is_class("communication")
    where = "CPU" if scene.on_cpu else "GPU"
    loading = scene.loader.within(begin, end)
    pieces = {
        f"{where}: kernels": _work(scene, ~talk & (scene.kernels | scene.on_cpu), begin, end),
        f"{where}: communication": _work(scene, talk, begin, end),
        f"{where}: idle": _causes(idle, begin, end),
        f"{where}: copies": _calls(scene, scene.work.where(scene.work.kind == Kind.MEMCPY), "copy", begin, end),
        "host: loading data": [
            _Piece(int(first), int(last), "loading", "loader") for first, last in zip(loading.start, loading.end, strict=True)
        ],
        "host: waiting": _calls(scene, scene.sync, "waiting", begin, end),
        "host: launching": _calls(scene, scene.launches, "launching", begin, end),
    }
    lanes = [
        Lane(name=name, spans=_drawn(_joined(found, begin, end, finer), begin, end)) for name, found in pieces.items() if found
    ]
    count = sum(len(found) for found in pieces.values())
    return Timeline(step_s=(end - begin) * 1e-9, joined=count - sum(len(lane.spans) for lane in lanes), lanes=tuple(lanes))


def _causes(idle: Mapping[str, Spans], begin: int, end: int) -> list[_Piece]:
    """Return when the device does nothing, each span with its cause."""
    found = [
        _Piece(int(first), int(last), cause, cause.replace("_", " "))
        for cause, spans in idle.items()
        for inside in [spans.within(begin, end)]
        for first, last in zip(inside.start, inside.end, strict=True)
    ]
    return sorted(found, key=lambda piece: piece.start)


def _inside(events: Events, chosen: Mask, begin: int, end: int) -> list[int]:
    """The rows that overlap this step, in order of start."""
    rows = np.flatnonzero(chosen & (events.end_ns > begin) & (events.start_ns < end))
    return [int(row) for row in rows[np.argsort(events.start_ns[rows], kind="stable")]]


def _work(scene: Scene, chosen: Mask, begin: int, end: int) -> list[_Piece]:
    work, names = scene.work, scene.trace.names
    return [
        _Piece(int(work.start_ns[row]), int(work.end_ns[row]), classes.CLASSES[scene.class_id[row]], names[work.name[row]])
        for row in _inside(work, chosen, begin, end)
    ]


def _calls(scene: Scene, events: Events, kind: str, begin: int, end: int) -> list[_Piece]:
    names = scene.trace.names
    return [
        _Piece(int(events.start_ns[row]), int(events.end_ns[row]), kind, names[events.name[row]])
        for row in _inside(events, np.ones(len(events), dtype=bool), begin, end)
    ]


def _joined(pieces: Sequence[_Piece], begin: int, end: int, finer: int) -> list[_Piece]:
    """Merge neighbours of one kind; if there are still too many, show each slice of the step by its most frequent kind."""
    gap, most = (end - begin) * _FINEST / finer, _MOST_SPANS * finer
    found = _join(pieces, gap)
    return found if len(found) <= most else _join(_slices(found, begin, (end - begin) / most, most), gap)


def _join(pieces: Sequence[_Piece], gap_ns: float) -> list[_Piece]:
    found: list[_Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        if last is None or piece.start - last.end > gap_ns or piece.kind != last.kind:
            found.append(piece)
            continue
        longer = piece if piece.end - piece.start > last.end - last.start else last
        found[-1] = _Piece(last.start, max(last.end, piece.end), longer.kind, longer.name)
    return found


def _slices(pieces: Sequence[_Piece], begin: int, width_ns: float, most: int) -> list[_Piece]:
    """Return one piece for each slice of time in which anything ran, as long as everything that ran in it."""
    inside: dict[int, list[_Piece]] = {}
    for piece in pieces:
        for place in range(max(0, int((piece.start - begin) / width_ns)), min(most, int((piece.end - begin) / width_ns) + 1)):
            left, right = begin + place * width_ns, begin + (place + 1) * width_ns
            cut = _Piece(max(piece.start, round(left)), min(piece.end, round(right)), piece.kind, piece.name)
            inside.setdefault(place, []).append(cut)
    return [_most(found) for _, found in sorted(inside.items())]


def _most(pieces: Sequence[_Piece]) -> _Piece:
    kinds = Counter[str]()
    for piece in pieces:
        kinds[piece.kind] += max(0, piece.end - piece.start)
    kind = kinds.most_common(1)[0][0]
    longest = max((piece for piece in pieces if piece.kind == kind), key=lambda piece: piece.end - piece.start)
    first = min(piece.start for piece in pieces)
    busy = min(sum(kinds.values()), max(piece.end for piece in pieces) - first)
    return _Piece(first, first + busy, kind, longest.name)


def _drawn(pieces: Sequence[_Piece], begin: int, end: int) -> tuple[LaneSpan, ...]:
    """Return seconds from the start of the step, cut at its beginning and end."""
    cut = [(max(piece.start, begin), min(piece.end, end), piece) for piece in pieces]
    return tuple(
        LaneSpan(start_s=(first - begin) * 1e-9, seconds=(last - first) * 1e-9, kind=piece.kind, name=piece.name[:_LONGEST_NAME])
        for first, last, piece in cut
    )
