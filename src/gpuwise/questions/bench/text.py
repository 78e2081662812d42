"""A measured profile as text: rates with their uncertainty, and what could not be measured."""

from __future__ import annotations

from gpuwise.core.units import format_si
from gpuwise.live.bench.types import Row
from gpuwise.questions.bench.answer import BenchAnswer
from gpuwise.render.text import Column, bold, join_notes, table

__all__ = ["render"]

_UNSURE = 0.1


def render(answer: BenchAnswer, *, width: int | None = None, colour: bool = False) -> str:
    """One line for each row, and what to think of them."""
    profile = answer.profile
    rows = profile.rows
    how = f"{profile.device}, torch {profile.torch}, {profile.threads} thread(s), {profile.day}"
    head = f"{bold(profile.name, colour=colour)}  {how}"
    columns = [
        Column(title="work", cells=[row.kind for row in rows], right=False),
        Column(title="sizes", cells=[" x ".join(f"{size:,.0f}" for size in row.sizes) for row in rows], right=False, drop=1),
        Column(title="time", cells=[format_si(row.seconds, "s") for row in rows]),
        Column(title="rate", cells=[_rate(row) for row in rows]),
        Column(title="±", cells=[f"{row.spread_fraction:.0%}" for row in rows]),
    ]
    unsure = [row for row in rows if row.spread_fraction > _UNSURE]
    notes = [f"not measured: {entry}" for entry in profile.missing]
    if unsure:
        many = f"{len(unsure)} of {len(rows)} rows are unsure by more than {_UNSURE:.0%}"
        notes.append(f"{many}: something else runs here; measure again when it is quiet")
    use = "`gpuwise predict resnet18 --on-this-machine` uses it"
    notes.append(f"saved: {answer.path}; {use}" if answer.path else f"not saved: {answer.unsaved}")
    return f"{head}\n\n{table(columns, width=width, colour=colour)}{join_notes(notes)}"


def _rate(row: Row) -> str:
    rate = row.work / row.seconds
    return f"{rate:,.0f} {row.unit}/s" if row.unit in ("images", "calls") else format_si(rate, f"{row.unit}/s")
