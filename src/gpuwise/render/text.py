"""Plain text that reads well without colour: aligned tables, cut to the available width, and fact sheets."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuwise.core.provenance import Assumption

__all__ = ["WIDTH", "Column", "assumption_lines", "bold", "folded", "join_notes", "range_words", "table", "wrapped"]

WIDTH = 100  # columns, where the terminal does not say
_NAMED = 3  # assumptions that a brief answer names
# What changes an answer most, first; others follow in the order in which they were made.
_MATTER = tuple(
    "doubtful_measurement measured slow_memory device_range device_software cpu_device shared_memory model task "
    "hours_per_week machine precision stack cpu batch seq optimizer link prices price utilisation years".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table; those with the highest `drop` are removed first in a narrow terminal."""

    title: str
    cells: Sequence[str]
    right: bool = True
    drop: int = 0

    @property
    def width(self) -> int:
        return max(len(self.title), *(len(cell) for cell in self.cells), 0) if self.cells else len(self.title)


def bold(text: str, *, colour: bool) -> str:
    """The text in bold where the terminal shows it."""
    return f"\x1b[1m{text}\x1b[0m" if colour and text else text


def table(columns: Sequence[Column], *, width: int | None = None, colour: bool = False) -> str:
    """Return aligned columns under a heading. Columns that can be dropped are, until it fits the width."""
    kept = _fitting(list(columns), width)
    widths = [column.width for column in kept]
    lines = [bold(_line([column.title for column in kept], kept, widths), colour=colour)]
    lines += [_line(row, kept, widths) for row in zip(*(column.cells for column in kept), strict=True)]
    return "\n".join(lines)


def _fitting(columns: list[Column], width: int | None) -> list[Column]:
    while width is not None and sum(column.width + 2 for column in columns) - 2 > width:
        candidates = [column for column in columns if column.drop]
        if not candidates:
            break
        columns.remove(max(candidates, key=lambda column: column.drop))
    return columns


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = (
        cell.rjust(width) if column.right else cell.ljust(width)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    )
    return "  ".join(padded).rstrip()


def assumption_lines(assumptions: Iterable[Assumption]) -> list[str]:
    """What an answer rests on, a line each.

    >>> from gpuwise.core.provenance import assumed
    >>> assumption_lines([assumed("batch", "128", "the usual one")])
    ['assumed: batch = 128 (the usual one)']
    """
    return [f"{note.basis}: {note.name} = {note.value} ({note.effect})" for note in assumptions]


def folded(assumptions: Sequence[Assumption], *, verbose: bool) -> list[str]:
    """What an answer rests on: a line each, or in brief one line that names the few that matter most.

    >>> from gpuwise.core.provenance import assumed
    >>> notes = [assumed("optimizer", "adamw", "the usual one"), assumed("precision", "amp", "faster")]
    >>> folded(notes, verbose=False)
    ['assumptions: precision = amp, optimizer = adamw; `-v` explains why']
    """
    once = list(dict.fromkeys(assumptions))
    if verbose or not once:
        return assumption_lines(once)
    order = {code: place for place, code in enumerate(_MATTER)}
    first = sorted(once, key=lambda note: (not note.overrides, order.get(note.code, len(order))))[:_NAMED]
    rest = f"`-v` lists all {len(once)}" if len(once) > len(first) else "`-v` explains why"
    return [f"assumptions: {', '.join(f'{note.name} = {_short(note.value)}' for note in first)}; {rest}"]


def _short(value: str) -> str:
    """Return the text up to the first comma or semicolon that ends a part; commas inside numbers are kept.

    >>> _short("$2,000"), _short("desktop, like an AMD Ryzen 7 5800X from 2020")
    ('$2,000', 'desktop')
    """
    return re.split(r"[,;] ", value, maxsplit=1)[0]


def wrapped(text: str, width: int | None, indent: str = "") -> str:
    """A sentence on lines of this width; those after the first are indented."""
    return "\n".join(
        textwrap.wrap(text, width or WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    )


def range_words(assumed_of: Iterable[str]) -> str:
    """Return what a drawn range means, and for what it is assumed."""
    names = list(dict.fromkeys(assumed_of))
    shown = ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
    return "the range expected to contain 80% of measurements" + (f" (assumed, not measured, for {shown})" if names else "")


def join_notes(notes: Sequence[str]) -> str:
    """Notes as lines below a table, or nothing."""
    return "\n\n" + "\n".join(notes) if notes else ""
