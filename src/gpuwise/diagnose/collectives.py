"""Matches collectives across ranks: which rank arrived last at each, and how long the others waited for it.

A collective ends at the same time on all of its ranks, so the rank with the shortest kernel arrived last, and the extra time of
any other kernel was spent waiting. This needs no common clock. The n-th collective of one kind and process group on one rank
matches the n-th on every other, because the ranks of a group issue them in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuwise.diagnose.steps import Steps
from gpuwise.diagnose.view import View
from gpuwise.trace.types import Mask

__all__ = ["Arrivals", "Gathering", "arrivals", "gatherings"]

_CLOSE_NS = 200_000  # between the ends of one collective on several ranks, after correcting the clocks; assumed
_CLOSE_SHARE = 0.2
_NOISE_NS = 10_000  # ranks that differ by less arrive together; assumed
_NOISE_SHARE = 0.05

Seconds = npt.NDArray[np.float64]
Key = tuple[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """The collectives that several ranks have in common, in the steady steps. `took_s` has one row per rank and one column per
    collective, NaN for a rank that takes no part; `step` and `place` are the step of the recording and the position among
    its kind in that step. `step_count` is the number of steps these collectives correspond to.
    """

    step_count: float
    took_s: Seconds
    step: npt.NDArray[np.intp]
    place: npt.NDArray[np.intp]
    kind: tuple[str, ...]

    @property
    def caused_s(self) -> Seconds:
        """Return how long the median of the other ranks waits for the rank that arrives last; 0 for all other ranks."""
        caused = np.zeros_like(self.took_s)
        for column, took in enumerate(self.took_s.T):
            last = int(np.nanargmin(took))
            others = np.delete(took, last)
            waited = float(np.nanmedian(others)) - float(took[last])
            if waited * 1e9 > max(_NOISE_NS, _NOISE_SHARE * float(np.nanmax(took)) * 1e9):
                caused[last, column] = waited
        return caused


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """One collective of a step, over all steady steps: which rank arrived last most often, and how long the others waited for
    it in a mean step.
    """

    kind: str
    place: int
    count: int
    last: int
    last_fraction: float
    waited_s: float


def arrivals(views: Sequence[View]) -> Arrivals | None:
    """Return what can be matched, or None if no collective is on two ranks."""
    found = [_by_key(view) for view in views]
    steps = views[0].scene.steps
    pieces: list[tuple[Seconds, Seconds]] = []
    kinds: list[str] = []
    for key in dict.fromkeys(key for rank in found for key in rank):
        pieces.append(_matched(views, [rank.get(key) for rank in found]))
        kinds += [_words(key)] * pieces[-1][0].shape[1]
    if not kinds:
        return None
    took, ends = (np.concatenate([piece[place] for piece in pieces], axis=1) for place in range(2))
    halfway = ends - 0.5e9 * took
    moment = np.where(np.isnan(halfway[0]), np.nanmin(halfway, axis=0), halfway[0])
    step = np.searchsorted(steps.start_ns, moment, side="right") - 1
    at = np.clip(step, 0, len(steps.start_ns) - 1)
    inside = (step >= 0) & steps.steady[at]
    kept = inside & _ends_together(took, ends)
    if not kept.any():
        return None
    names = [kind for kind, keep in zip(kinds, kept.tolist(), strict=True) if keep]
    return Arrivals(
        step_count=_steps_worth(step[kept], steps),
        took_s=took[:, kept],
        step=step[kept],
        place=_places(names, step[kept]),
        kind=tuple(names),
    )


def _steps_worth(step: npt.NDArray[np.intp], steps: Steps) -> float:
    """Return how many steps have this many collectives: the device runs behind the host, so the last step may contain those of
    the next.
    """
    each = np.bincount(step, minlength=len(steps.start_ns))[steps.steady]
    usual = float(np.median(each))
    return len(step) / usual if usual >= 1.0 else float(max(steps.steady_count, 1))


def gatherings(found: Arrivals) -> tuple[Gathering, ...]:
    """Return the collectives of a step that keep ranks waiting, the longest wait first."""
    caused = found.caused_s
    groups: dict[tuple[str, int], list[int]] = {}
    for column, key in enumerate(zip(found.kind, found.place.tolist(), strict=True)):
        groups.setdefault(key, []).append(column)
    told = []
    for (kind, place), columns in groups.items():
        waited = caused[:, columns]
        last = int(waited.sum(axis=1).argmax())
        often = float((waited[last] > 0).mean())
        told.append(
            Gathering(
                kind=kind,
                place=place,
                count=len(columns),
                last=last,
                last_fraction=often,
                waited_s=float(waited[last].sum()) / found.step_count,
            )
        )
    return tuple(sorted((one for one in told if one.waited_s > 0), key=lambda one: -one.waited_s))


def _by_key(view: View) -> dict[Key, npt.NDArray[np.intp]]:
    """Return rows of collectives in order of start, by kind and process group."""
    scene = view.scene
    rows = np.flatnonzero(scene.is_class("communication"))
    found: dict[Key, list[int]] = {}
    for row in rows.tolist():
        name, shape = scene.trace.names[scene.work.name[row]], int(scene.work.shape[row])
        told = scene.trace.shapes[shape].rpartition(b"|")[0] if shape >= 0 else b""
        found.setdefault((name.partition("(")[0], told), []).append(row)
    return {key: np.array(group, dtype=np.intp) for key, group in found.items()}


def _matched(views: Sequence[View], rows: Sequence[npt.NDArray[np.intp] | None]) -> tuple[Seconds, Seconds]:
    """Return durations and ends, with one row per rank and one column per collective: over the whole recording if all ranks
    have equally many, otherwise within each step that has equally many.
    """
    counts = {len(group) for group in rows if group is not None}
    chosen: list[npt.NDArray[np.intp] | None] = list(rows)
    if len(counts) > 1:
        chosen = _step_by_step(views, rows)
    length = max((len(group) for group in chosen if group is not None), default=0)
    took, ends = np.full((len(views), length), np.nan), np.full((len(views), length), np.nan)
    for place, (view, group) in enumerate(zip(views, chosen, strict=True)):
        if group is not None:
            took[place] = view.scene.work.duration_ns[group] * 1e-9
            ends[place] = view.scene.work.end_ns[group]
    several = (~np.isnan(took)).sum(axis=0) > 1
    return took[:, several], ends[:, several]


def _step_by_step(views: Sequence[View], rows: Sequence[npt.NDArray[np.intp] | None]) -> list[npt.NDArray[np.intp] | None]:
    """Return the rows of the steps in which every participating rank has equally many."""
    if len({len(view.scene.steps.start_ns) for view in views}) > 1:
        return [None] * len(views)
    step_count = len(views[0].scene.steps.start_ns)
    steps = [
        None if group is None else np.searchsorted(view.scene.steps.start_ns, view.scene.work.start_ns[group], side="right") - 1
        for view, group in zip(views, rows, strict=True)
    ]
    held = np.array([np.bincount(step[step >= 0], minlength=step_count) for step in steps if step is not None])
    alike = (held == held[0]).all(axis=0)
    return [
        None if group is None or step is None else group[(step >= 0) & alike[np.maximum(step, 0)]]
        for group, step in zip(rows, steps, strict=True)
    ]


def _ends_together(took: Seconds, ends: Seconds) -> Mask:
    """Return whether the ranks leave a collective at the same time, after correcting each clock by its median offset from the
    first. Otherwise it is not a collective of all of them (sends and receives, groups that the trace does not distinguish).
    If this holds for few, the clocks drift or the recording is inconsistent, and nothing is ruled out.
    """
    middle = np.nanmedian(ends, axis=0)
    away = ends - middle
    away -= np.nanmedian(away, axis=1, keepdims=True)
    spread = np.nanmax(away, axis=0) - np.nanmin(away, axis=0)
    together = np.asarray(spread <= np.maximum(_CLOSE_NS, _CLOSE_SHARE * np.nanmax(took, axis=0) * 1e9), dtype=bool)
    return together if together.mean() > 0.5 else np.ones(len(together), dtype=bool)


def _places(kinds: Sequence[str], step: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return the position of each collective among its kind in its step, from 1."""
    seen: dict[tuple[str, int], int] = {}
    found = np.zeros(len(kinds), dtype=np.intp)
    for column, key in enumerate(zip(kinds, step.tolist(), strict=True)):
        seen[key] = seen.get(key, 0) + 1
        found[column] = seen[key]
    return found


def _words(key: Key) -> str:
    """Return the name of a collective: the framework's, or else that of its kernel."""
    name, told = key
    kind, _, group = told.decode("utf-8", "replace").partition("|")
    return f"{kind} {group}".replace('"', "").strip() if told else name
