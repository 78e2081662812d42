"""Several ranks of one run, or several GPUs in one file: sorted, checked to belong together, and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuwise.core.errors import BadFile
from gpuwise.diagnose.collectives import arrivals, gatherings
from gpuwise.diagnose.view import View

__all__ = ["Late", "Rank", "as_ranks", "in_one_file", "late_rank", "missing_ranks", "peers", "typical"]

MOSTLY = 0.7  # share of the steps in which a rank has to be last at a collective
_WORKS = 0.1  # of the busiest GPU's work; a GPU with less is not part of the job; assumed


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One file of a run, or one of several GPUs in a file (`of_several`); `first` of its file."""

    label: str
    number: int | None
    view: View
    of_several: bool = False
    first: bool = True

    @property
    def communication_s(self) -> float:
        """Time in the collectives that a steady step launches, hidden or not, even if the device runs them after the step."""
        scene = self.view.scene
        begin, end = scene.steps.steady_window
        called = np.where(scene.launch_ns >= 0, scene.launch_ns, scene.work.start_ns)
        chosen = scene.is_class("communication") & (called >= begin) & (called < end)
        return scene.spans(chosen).total_ns * 1e-9 / max(scene.steps.steady_count, 1)

    @property
    def work_s(self) -> float:
        """Time in which anything ran on the device, in a steady step."""
        return self.view.facts.busy_fraction * self.view.step_s


def as_ranks(views: Sequence[View], beside: Sequence[Sequence[View]] = ()) -> tuple[Rank, ...]:
    """Return the files in order of rank, each with its other GPUs (`beside`). Files that cannot be from one run are refused."""
    numbers = [view.scene.trace.rank for view in views]
    if len(views) > 1:
        _check_together(views, numbers)
    files = []
    for number, view, others in zip(numbers, views, beside or [()] * len(views), strict=True):
        unnamed = "this file" if len(views) == 1 else view.scene.trace.file
        files.append((number is None, number or 0, unnamed if number is None else f"rank {number}", [view, *others]))
    files.sort(key=lambda file: file[:3])
    return tuple(
        rank
        for unnumbered, number, label, found in files
        for rank in _of_file(label, None if unnumbered else number, found, files)
    )


def _of_file(label: str, number: int | None, views: Sequence[View], files: Sequence[object]) -> list[Rank]:
    """One rank for each GPU in a file."""
    if len(views) == 1:
        return [Rank(label=label, number=number, view=views[0])]
    head = f"{label}, " if len(files) > 1 else ""
    return [
        Rank(label=f"{head}GPU {view.scene.device.index}", number=number, view=view, of_several=True, first=place == 0)
        for place, view in enumerate(sorted(views, key=lambda view: view.scene.device.index))
    ]


def _check_together(views: Sequence[View], numbers: Sequence[int | None]) -> None:
    sizes = {view.scene.trace.world_size for view in views}
    known = [number for number in numbers if number is not None]
    if len(sizes) > 1:
        raise _mixed(f"their world sizes differ ({', '.join(str(size) for size in sorted(sizes, key=str))})", views)
    if len(set(known)) < len(known):
        twice = next(number for number in known if known.count(number) > 1)
        raise _mixed(f"rank {twice} appears more than once", views)
    if not _together(views):
        raise _mixed("they were not recorded at the same time", views)


def _mixed(why: str, views: Sequence[View]) -> BadFile:
    return BadFile(
        f"these {len(views)} files are not ranks of the same run: {why}",
        looked_in=", ".join(view.scene.trace.file for view in views[:4]) + (", …" if len(views) > 4 else ""),
        hint="pass files from the same run; to compare two runs, use `gpuwise why A --compare B`",
    )


def _together(views: Sequence[View]) -> bool:
    """Return whether the recordings overlap in time, with a tolerance of one recording's length, because the clocks of hosts
    differ.
    """
    windows = [view.scene.steps.window for view in views]
    length = max(end - begin for begin, end in windows)
    return max(begin for begin, _ in windows) <= min(end for _, end in windows) + length + 1_000_000_000


def missing_ranks(ranks: Sequence[Rank]) -> tuple[int, ...]:
    """Return the numbers that no file has, if the world size is known."""
    world = max((rank.view.scene.trace.world_size or 0 for rank in ranks), default=0)
    present = {rank.number for rank in ranks}
    return tuple(number for number in range(min(world, 100_000)) if number not in present) if None not in present else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """The rank that arrives last at collectives: how long the others wait for it, and in which share of the steps it is last.

    `last_of` is the number of `matched` collectives at which it arrived last while others waited; 0 of 0 if none could be
    matched, and the time in all collectives of a step was compared. `waits_s` is that time, by rank. `also` are others that are
    mostly last at some collective; `lost_s` includes the waits for them.
    """

    place: int
    lost_s: float
    waits_s: tuple[float, ...]
    often_fraction: float
    step_count: int
    last_of: int = 0
    matched: int = 0
    also: tuple[int, ...] = ()


def in_one_file(ranks: Sequence[Rank]) -> bool:
    """Whether these are several GPUs of a single file."""
    return len(ranks) > 1 and sum(rank.first for rank in ranks) == 1


def peers(ranks: Sequence[Rank]) -> tuple[Rank, ...]:
    """Return those that do a fair part of the work: a GPU in a file that does hardly anything is not part of the job."""
    most = max(rank.work_s for rank in ranks)
    return tuple(rank for rank in ranks if not rank.of_several or rank.work_s >= _WORKS * most)


def late_rank(ranks: Sequence[Rank]) -> Late | None:
    """Return the rank that others wait for most, or None with one rank, or if a rank has no collectives."""
    by_step = _waiting_s(ranks) if len(ranks) > 1 else None
    if by_step is None:
        return None
    return _late_by_match(ranks, by_step) or _late_by_total(by_step)


def _late_by_match(ranks: Sequence[Rank], by_step: npt.NDArray[np.float64]) -> Late | None:
    """Use collectives matched one by one. The loss is the wait for the last rank at each, if it is mostly the same one. A wait
    that overlaps with other kernels costs nothing, so the loss is bounded by what is exposed.
    """
    found = arrivals([rank.view for rank in ranks])
    told = gatherings(found) if found is not None else ()
    if found is None:
        return None
    caused = found.caused_s
    place = int(caused.sum(axis=1).argmax())
    own = [one for one in told if one.last == place]
    waited = sum(one.waited_s for one in own)
    exposed = [rank.view.parts.parts_s["communication"] for rank in ranks if rank is not ranks[place]]
    return Late(
        place=place,
        lost_s=min(sum(one.waited_s for one in told if one.last_fraction >= MOSTLY), float(np.median(exposed))),
        waits_s=tuple(by_step.mean(axis=1).tolist()),
        often_fraction=sum(one.last_fraction * one.waited_s for one in own) / waited if waited > 0 else 0.0,
        step_count=len(np.unique(found.step)),
        last_of=int((caused[place] > 0).sum()),
        matched=int((~np.isnan(found.took_s[place])).sum()),
        also=tuple(dict.fromkeys(one.last for one in told if one.last_fraction >= MOSTLY and one.last != place)),
    )


def _late_by_total(by_step: npt.NDArray[np.float64]) -> Late:
    """Use the total time in all collectives of a step."""
    waits = by_step.mean(axis=1)
    place = int(np.argmin(waits))
    return Late(
        place=place,
        lost_s=float(np.median(np.delete(waits, place)) - by_step[place].min()),  # the shortest time, in which nobody waited
        waits_s=tuple(waits.tolist()),
        often_fraction=float((by_step.argmin(axis=0) == place).mean()),
        step_count=by_step.shape[1],
    )


def typical(ranks: Sequence[Rank]) -> Rank:
    """Return the rank with the median step, excluding the one that arrives last at collectives: rank 0 often has more to do
    than others. GPUs in one file share their steps; of those, it is the one with the most kernel time.
    """
    working = peers(ranks)
    late = late_rank(working)
    others = [rank for place, rank in enumerate(working) if late is None or place != late.place]
    if in_one_file(ranks):
        return max(others, key=lambda rank: int(rank.view.scene.work.duration_ns[rank.view.scene.kernels].sum()))
    order = sorted(range(len(others)), key=lambda place: others[place].view.scene.steps.median_s)
    return others[order[(len(order) - 1) // 2]]


def _waiting_s(ranks: Sequence[Rank]) -> npt.NDArray[np.float64] | None:
    """Seconds in collectives by rank and steady step, shape (ranks, steps); one column of means where the steps do not match.

    None where a rank has no collectives.
    """
    found = [_by_step(rank.view) for rank in ranks]
    if any(steps.sum() <= 0 for steps in found):
        return None
    if len({len(steps) for steps in found}) > 1:
        return np.array([[steps.mean()] for steps in found])
    return np.stack(found)


def _by_step(view: View) -> npt.NDArray[np.float64]:
    scene = view.scene
    spans = scene.spans(scene.is_class("communication"))
    starts, ends = scene.steps.start_ns[scene.steps.steady], scene.steps.end_ns[scene.steps.steady]
    return np.array([spans.within(int(start), int(end)).total_ns * 1e-9 for start, end in zip(starts, ends, strict=True)])
