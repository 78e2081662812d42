"""A measured profile as text: rates with their uncertainty, and what could not be measured."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.core.text import counted
from gpuwise.core.units import format_si
from gpuwise.live.bench.types import Row
from gpuwise.questions.bench.answer import BenchAnswer
from gpuwise.render.text import WIDTH, Column, bold, join_notes, table, wrapped

__all__ = ["render"]

_UNSURE = 0.1  # spread between repeats that an idle machine stays well below


def render(answer: BenchAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """Return one line for each measurement (by default only the fastest of each kind) and how certain they are."""
    profile = answer.profile
    rows = profile.rows if verbose else _fastest(profile.rows)
    how = f"{profile.device}, torch {profile.torch}, {counted(profile.threads, 'thread')}, {profile.day}"
    head = f"{bold(profile.name, colour=colour)}  {how}"
    columns = [
        Column(title="work", cells=[row.kind for row in rows], right=False),
        Column(title="sizes", cells=[" x ".join(f"{size:,.0f}" for size in row.sizes) for row in rows], right=False, drop=1),
        Column(title="time", cells=[format_si(row.seconds, "s") for row in rows]),
        Column(title="rate", cells=[_rate(row) for row in rows]),
        Column(title="±", cells=[f"{row.spread_fraction:.0%}" for row in rows]),
    ]
    unsure = [row for row in profile.rows if row.spread_fraction > _UNSURE]
    notes = [f"not measured: {entry}" for entry in profile.missing]
    if unsure:
        many = f"{len(unsure)} of {len(profile.rows)} measurements vary by more than {_UNSURE:.0%}"
        notes.append(f"{many}, probably because other programs are running; measure again when the machine is idle")
    use = "`gpuwise predict resnet18 --on-this-machine` uses this profile"
    notes.append(f"saved: {answer.path}; {use}" if answer.path else f"not saved: {answer.unsaved}")
    more = len(profile.rows) - len(rows)
    cut = f"\n… and {more} more sizes; `-v` lists them all" if more else ""
    body = table(columns, width=width or WIDTH, colour=colour) + cut
    return f"{head}\n\n{body}{join_notes([wrapped(note, width, '  ') for note in notes])}"


def _fastest(rows: Sequence[Row]) -> list[Row]:
    """Return the size with the highest rate for each kind of work, which is the best that the device reaches."""
    best: dict[str, Row] = {}
    for row in rows:
        if row.kind not in best or row.work / row.seconds > best[row.kind].work / best[row.kind].seconds:
            best[row.kind] = row
    return list(best.values())


def _rate(row: Row) -> str:
    rate = row.work / row.seconds
    return f"{rate:,.0f} {row.unit}/s" if row.unit in ("images", "calls") else format_si(rate, f"{row.unit}/s")
