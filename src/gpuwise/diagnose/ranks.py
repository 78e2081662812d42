"""Several ranks of one run: put in order, checked to belong together, set side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuwise.core.errors import BadFile
from gpuwise.diagnose.view import View

__all__ = ["Late", "Rank", "as_ranks", "late_rank", "missing_ranks", "typical"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One file of a run."""

    label: str
    number: int | None
    view: View

    @property
    def communication_s(self) -> float:
        """Time in collectives, hidden or not, in a steady step."""
        return self.view.facts.communication_fraction * self.view.step_s


def as_ranks(views: Sequence[View]) -> tuple[Rank, ...]:
    """The files in order of rank. Files that cannot be of one run are refused."""
    if len(views) == 1:
        number = views[0].scene.trace.rank
        return (Rank(label="this file" if number is None else f"rank {number}", number=number, view=views[0]),)
    sizes = {view.scene.trace.world_size for view in views}
    numbers = [view.scene.trace.rank for view in views]
    known = [number for number in numbers if number is not None]
    if len(sizes) > 1:
        raise _mixed(f"their world sizes differ ({', '.join(str(size) for size in sorted(sizes, key=str))})", views)
    if len(set(known)) < len(known):
        twice = next(number for number in known if known.count(number) > 1)
        raise _mixed(f"rank {twice} appears more than once", views)
    if not _together(views):
        raise _mixed("they were not recorded at the same time", views)
    ranks = [
        Rank(label=f"rank {number}" if number is not None else view.scene.trace.file, number=number, view=view)
        for number, view in zip(numbers, views, strict=True)
    ]
    return tuple(sorted(ranks, key=lambda rank: (rank.number is None, rank.number or 0, rank.label)))


def _mixed(why: str, views: Sequence[View]) -> BadFile:
    return BadFile(
        f"these {len(views)} files are not ranks of the same run: {why}",
        looked_in=", ".join(view.scene.trace.file for view in views[:4]) + (", …" if len(views) > 4 else ""),
        hint="pass files from the same run; to compare two runs, use `gpuwise why A --compare B`",
    )


def _together(views: Sequence[View]) -> bool:
    """Whether the recordings overlap in time, give or take one length of them (clocks of hosts differ)."""
    windows = [view.scene.steps.window for view in views]
    length = max(end - begin for begin, end in windows)
    return max(begin for begin, _ in windows) <= min(end for _, end in windows) + length + 1_000_000_000


def missing_ranks(ranks: Sequence[Rank]) -> tuple[int, ...]:
    """The numbers that no file has, where the size of the world is known."""
    world = max((rank.view.scene.trace.world_size or 0 for rank in ranks), default=0)
    present = {rank.number for rank in ranks}
    return tuple(number for number in range(min(world, 100_000)) if number not in present) if None not in present else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """The rank that comes last to collectives: what the others wait for it, and in which share of the steps it is the last."""

    place: int
    lost_s: float
    waits_s: tuple[float, ...]
    often_fraction: float
    step_count: int


def late_rank(ranks: Sequence[Rank]) -> Late | None:
    """The rank with the least time in collectives; None with one rank, or where a rank has no collectives."""
    by_step = _waiting_s(ranks) if len(ranks) > 1 else None
    if by_step is None:
        return None
    waits = by_step.mean(axis=1)
    place = int(np.argmin(waits))
    return Late(
        place=place,
        lost_s=float(np.median(np.delete(waits, place)) - by_step[place].min()),  # its shortest: nobody was waited for
        waits_s=tuple(waits.tolist()),
        often_fraction=float((by_step.argmin(axis=0) == place).mean()),
        step_count=by_step.shape[1],
    )


def typical(ranks: Sequence[Rank]) -> Rank:
    """The rank with the median step, without the one that comes last to collectives: rank 0 often has more to do than others."""
    late = late_rank(ranks)
    others = [rank for place, rank in enumerate(ranks) if late is None or place != late.place]
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
