"""A checked build as text: the verdict, a line for each check, and what power limits cost."""

from __future__ import annotations

import textwrap

from gpuwise.box.types import Line
from gpuwise.questions.build.answer import BuildAnswer
from gpuwise.questions.common.machine_speed import KINDS
from gpuwise.render.text import Column, assumption_lines, bold, join_notes, table

__all__ = ["render"]

_MARKS = {"pass": "pass ", "tight": "TIGHT", "fail": "FAIL "}
_INDENT = " " * 21
_WIDTH = 130
_SUMMARY = {"pass": "works", "tight": "works, with care", "fail": "does not work as it is"}


def render(answer: BuildAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """The whole answer."""
    cards = " + ".join(f"{each.count} x {each.gpu.name}" for each in answer.cards)
    failing = [line.check for line in answer.lines if line.verdict == answer.verdict]
    why = "" if answer.verdict == "pass" else f" ({', '.join(dict.fromkeys(failing))})"
    head = f"{bold(cards, colour=colour)}: {_SUMMARY[answer.verdict]}{why}"
    lines = "\n".join(_line(line, width or _WIDTH) for line in answer.lines)
    curve = _curve(answer, width, colour)
    notes = assumption_lines(answer.assumptions)
    return "\n\n".join(filter(None, (head, lines, curve))) + join_notes(notes)


def _line(line: Line, width: int) -> str:
    first = f"  {_MARKS[line.verdict]}  {line.check:<11} {line.text}"
    wrapped = textwrap.fill(first, width, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False)
    if not line.remedy:
        return wrapped
    hanging = f"{_INDENT}   "
    remedy = textwrap.fill(f"-> {line.remedy}", width, initial_indent=_INDENT, subsequent_indent=hanging, break_on_hyphens=False)
    return f"{wrapped}\n{remedy}"


def _curve(answer: BuildAnswer, width: int | None, colour: bool) -> str:
    """Speeds at power limits, a row a limit."""
    if not answer.power_limits:
        return ""
    points = answer.power_limits
    columns = [
        Column(title="  power limit", cells=[f"  {point.gpu} at {point.watts:.0f} W" for point in points], right=False),
        *(
            Column(title=kind.title, cells=[f"{100 * point.relative_speed[kind.name]:.0f} %" for point in points], drop=place)
            for place, kind in enumerate(KINDS)
        ),
    ]
    return table(columns, width=width, colour=colour)
