"""Findings as text, for `why` and `watch`: the bar of a step, each finding, and which checks could not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuwise.diagnose.types import Abstained, Finding, Gain
from gpuwise.render.text import WIDTH, bold, wrapped

__all__ = [
    "MOST_FINDINGS",
    "bar",
    "brief_notes",
    "cost",
    "describe_abstained",
    "finding_text",
    "overlap",
    "promise",
    "shares_of",
    "smaller",
    "time_text",
]

MOST_FINDINGS = 5  # more than anyone acts on at once; JSON has all
_BRIEF_NOTES = 2  # the first ones are about this file, the later ones about profilers in general
_BAR_WIDTH = 60  # characters: with its brackets and indentation it fits 80 columns
_LEAST_SHARE = 0.01  # share of a step: smaller parts would be less than one character of the bar
_MARKS = "█▓▒░▚▞▙▟◆◇●○"


def shares_of(parts_s: Mapping[str, float], step_s: float) -> list[tuple[str, float]]:
    """Return the parts of a step that are large enough to show, the largest first."""
    shares = [(name, seconds / step_s) for name, seconds in parts_s.items() if seconds > 0]
    return sorted((part for part in shares if part[1] >= _LEAST_SHARE), key=lambda part: -part[1])


def bar(shares: Sequence[tuple[str, float]], width: int | None = None) -> str:
    """One bar and its legend, on as many lines as the legend needs."""
    marks = [(_MARKS[place % len(_MARKS)], name, share) for place, (name, share) in enumerate(shares)]
    cells, filled, reached = [], 0, 0.0
    for mark, _, share in marks:
        reached += share
        upto = round(reached * _BAR_WIDTH)
        cells.append(mark * (upto - filled))
        filled = upto
    legend = [""]
    for mark, name, share in marks:
        entry = f"{mark} {name.replace('_', ' ')} {share:.0%}"
        if legend[-1] and len(legend[-1]) + 2 + len(entry) > (width or WIDTH):
            legend.append("")
        legend[-1] += f"  {entry}" if legend[-1] else entry
    return "\n".join([f"[{''.join(cells).ljust(_BAR_WIDTH)}]", *legend])


def finding_text(place: int, finding: Finding, *, width: int | None, colour: bool, verbose: bool, per: str = "per step") -> str:
    """Return what happens, what it costs and what to do; with `verbose` also the evidence and how to check it."""
    head = f"{place}. {finding.code} ({finding.severity}): {finding.title}"
    lines = [cost(finding, per), *(finding.lines if verbose else ()), f"fix: {finding.remedy}"]
    lines += [f"check: {finding.verify}"] if verbose else []
    return "\n".join([bold(head, colour=colour), *(wrapped(f"   {line}", width, "     ") for line in lines)])


def cost(finding: Finding, per: str = "per step") -> str:
    """Return the seconds now and the speed after the fix."""
    now = f"{time_text(finding.seconds_per_step)} {per} ({finding.share_fraction:.0%})"
    return f"{now}; {promise(finding.gain)}; confidence: {finding.confidence}"


def promise(gain: Gain) -> str:
    """Return what a fix would gain, and whether the range is wide."""
    if gain.is_wide:
        known = f"a fix would make the run between {gain.low:.2f} and {gain.high:.2f} times as fast"
        return f"{known} (this trace does not allow a more precise estimate)"
    return f"a fix would make the run {gain.low:.2f} to {gain.high:.2f} times as fast"


def smaller(findings: Sequence[Finding], shown: int = MOST_FINDINGS) -> list[str]:
    """Return a line for those that are not shown."""
    more = len(findings) - shown
    if more <= 0:
        return []
    names = ", ".join(finding.code for finding in findings[shown:])
    where = "`--json` lists all" if shown >= MOST_FINDINGS else "`-v` shows more"
    return [f"{more} smaller finding{'s' if more > 1 else ''}: {names} ({where})"]


def overlap(findings: Sequence[Finding]) -> list[str]:
    """Return a warning if several causes may explain the same time."""
    if len(findings) < 2:
        return []
    return ["findings overlap, so their gains do not multiply: fix the first one, then record again"]


def brief_notes(notes: Sequence[str], abstained: Sequence[Abstained], most: int = _BRIEF_NOTES) -> list[str]:
    """The first notes, and how many checks could not run, without their reasons."""
    lines = [f"note: {note}" for note in notes[:most]]
    left = len(notes) - most
    parts = [f"{left} more note{'s' if left > 1 else ''}"] if left > 0 else []
    parts += [f"why {len(abstained)} check{'s' if len(abstained) > 1 else ''} could not run"] if abstained else []
    return [*lines, *([f"`-v` shows {' and '.join(parts)}"] if parts else [])]


def describe_abstained(abstained: Sequence[Abstained], otherwise: str = "not recorded in traces") -> list[str]:
    """Which checks could not run; those that share a remedy are put in one line."""
    groups: dict[str, list[Abstained]] = {}
    for entry in abstained:
        groups.setdefault(entry.record_next, []).append(entry)
    lines = []
    for remedy, entries in groups.items():
        codes = ", ".join(entry.code for entry in entries)
        reason = entries[0].reason if len({entry.reason for entry in entries}) == 1 else otherwise
        lines.append(f"not checked: {codes} ({reason}); {remedy}")
    return lines


def time_text(seconds: float) -> str:
    """Seconds in a unit that reads well.

    >>> time_text(0.0123), time_text(2.5), time_text(4e-6)
    ('12.3 ms', '2.50 s', '4.0 µs')
    """
    if seconds >= 1.0:
        return f"{seconds:,.2f} s"
    return f"{seconds * 1e3:,.1f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:,.1f} µs"
