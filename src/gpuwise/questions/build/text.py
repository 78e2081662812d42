"""A checked build as text: the verdict, a line for each check, and what power limits cost."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpuwise.box.power import measured_losses
from gpuwise.box.types import CheckLine
from gpuwise.core.text import both
from gpuwise.questions.build.answer import BuildAnswer
from gpuwise.questions.common.machine import KINDS, PowerLimit, is_geforce
from gpuwise.render.text import WIDTH, Column, bold, folded, join_notes, table, wrapped

__all__ = ["render"]

_MARKS = {"pass": "pass ", "tight": "TIGHT", "fail": "FAIL "}
_INDENT = " " * 21
_HIGH_COST = 0.15  # of the speed: a larger power supply is better then
_MOST_LINES = 25  # of a brief answer: a terminal's height
_SUMMARY = {
    "pass": "this build works",
    "tight": "this build works, but with little margin",
    "fail": "this build does not work",
}
_NAMED = {"tight": "tight", "fail": "failed"}


def render(answer: BuildAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """The verdict and a line for each check; where those are many, only the worst are explained, and those that the user gave an
    option for. Everything with `verbose`."""
    cards = " + ".join(f"{each.count} x {each.gpu.name}" for each in answer.cards)
    failing = [line.check for line in answer.lines if line.verdict == answer.verdict]
    why = "" if answer.verdict == "pass" else f" ({_NAMED[answer.verdict]}: {', '.join(dict.fromkeys(failing))})"
    head = wrapped(f"{bold(cards, colour=colour)}: {_SUMMARY[answer.verdict]}{why}{_describe_limit(answer)}", width, "  ")
    notes = join_notes([wrapped(note, width, "  ") for note in folded(answer.assumptions, verbose=verbose)])
    checks = "\n".join(_line(line, width or WIDTH) for line in answer.lines)
    if verbose:
        return "\n\n".join(filter(None, (head, checks, _curve(answer, width or WIDTH, colour)))) + notes
    for shown in (checks, *_shorter(answer, width or WIDTH)):
        brief = f"{head}\n\n{shown}{notes}"
        if brief.count("\n") < _MOST_LINES:
            break
    return brief


def _describe_limit(answer: BuildAnswer) -> str:
    """The one power limit that satisfies every check that fails without one: each check names its own."""
    limits = {line.check: line.power_limit_watts for line in answer.lines if line.verdict == "fail" and line.power_limit_watts}
    if len(set(limits.values())) < 2:
        return ""
    lowest = min(limits.values())
    rated = [each.gpu.tdp_watts for each in answer.cards if is_geforce(each.gpu) and each.gpu.tdp_watts]
    lost = [most for watts in rated for _, most in measured_losses(lowest / watts).values()]
    slow = ", but the GPUs would be much slower" if max(lost, default=0.0) > _HIGH_COST else ""
    return f". At {lowest:.0f} W for each GPU, {both(limits)} would pass{slow}."


def _shorter(answer: BuildAnswer, width: int) -> Iterator[str]:
    """The checks that decide the verdict and those that the user asked about, in fewer words each time, and then fewer of the
    latter."""
    lines = {line.check: line for line in answer.lines if line.check in answer.given and line.verdict != answer.verdict}
    bare = {name: replace(line, remedy="") for name, line in lines.items()}
    short = {name: replace(line, text=line.text.split("; ")[0]) for name, line in bare.items()}
    ranked = [name for name in answer.given if name in short]
    fewer = [{name: short[name] for name in ranked[:count]} for count in range(len(ranked) - 1, -1, -1)]
    for shown in (lines, bare, short, *fewer):
        yield _only_worst(answer, width, shown)


def _only_worst(answer: BuildAnswer, width: int, given: Mapping[str, CheckLine]) -> str:
    """The checks that decide the verdict, each with its remedy, and the `given` lines; a remedy that two share is given once.
    Others are named."""
    lines, before = [], ""
    for line in answer.lines:
        if line.verdict == answer.verdict:
            again = replace(line, text=f"{line.text} (same fix)", remedy="")
            lines.append(_line(again if line.remedy and line.remedy == before else line, width))
            before = line.remedy
        elif line.check in given:
            lines.append(_line(given[line.check], width))
    for verdict in ("tight", "pass"):
        rest = [line for line in answer.lines if line.verdict == verdict != answer.verdict and line.check not in given]
        lines += [f"  {_MARKS[verdict]}  {', '.join(line.check for line in rest)}"] if rest else []
    return "\n".join(lines)


def _line(line: CheckLine, width: int) -> str:
    first = f"  {_MARKS[line.verdict]}  {line.check:<11} {line.text}"
    filled = textwrap.fill(first, width, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False)
    if not line.remedy:
        return filled
    hanging = f"{_INDENT}   "
    remedy = textwrap.fill(f"-> {line.remedy}", width, initial_indent=_INDENT, subsequent_indent=hanging, break_on_hyphens=False)
    return f"{filled}\n{remedy}"


def _curve(answer: BuildAnswer, width: int | None, colour: bool) -> str:
    """Speeds at power limits, with one row for each limit."""
    if not answer.power_limits:
        return ""
    points = answer.power_limits
    columns = [
        Column(title="  power limit", cells=[f"  {point.gpu} at {point.watts:.0f} W" for point in points], right=False),
        *(
            Column(title=kind.title, cells=[f"{100 * point.relative_speed[kind.name]:.0f}%" for point in points], drop=place)
            for place, kind in enumerate(KINDS)
        ),
    ]
    measured = [_kept(point) for point in points]
    if any(measured):
        columns.append(Column(title="GeForce, measured", cells=measured, drop=len(KINDS)))
    return table(columns, width=width, colour=colour)


def _kept(point: PowerLimit) -> str:
    """The speed that GeForce cards were measured to keep at this share of their power, over all kinds of work."""
    if point.measured_speed is None:
        return ""
    least, most = (f"{100 * share:.0f}" for share in point.measured_speed)
    return f"{most}%" if least == most else f"{least} to {most}%"
