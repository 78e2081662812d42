"""How findings look, whoever found them: the bar of a step, a finding as text, what could not be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuwise.diagnose.types import Abstained, Finding
from gpuwise.render.text import bold

__all__ = ["MOST_FINDINGS", "bar", "cost", "finding_text", "overlap", "shares_of", "smaller", "time_text", "untold"]

MOST_FINDINGS = 5
_BAR_WIDTH = 60
_LEAST_SHARE = 0.01
_MARKS = "█▓▒░▚▞▙▟◆◇●○"


def shares_of(parts_s: Mapping[str, float], step_s: float) -> list[tuple[str, float]]:
    """The parts of a step worth telling, the largest first."""
    shares = [(name, seconds / step_s) for name, seconds in parts_s.items() if seconds > 0]
    return sorted((part for part in shares if part[1] >= _LEAST_SHARE), key=lambda part: -part[1])


def bar(shares: Sequence[tuple[str, float]]) -> str:
    """One bar and its legend."""
    marks = [(_MARKS[place % len(_MARKS)], name, share) for place, (name, share) in enumerate(shares)]
    cells, filled, reached = [], 0, 0.0
    for mark, _, share in marks:
        reached += share
        upto = round(reached * _BAR_WIDTH)
        cells.append(mark * (upto - filled))
        filled = upto
    legend = "  ".join(f"{mark} {name.replace('_', ' ')} {share:.0%}" for mark, name, share in marks)
    return f"[{''.join(cells).ljust(_BAR_WIDTH)}]\n{legend}"


def finding_text(place: int, finding: Finding, colour: bool, per: str = "a step") -> str:
    """What happens, what it costs, the evidence, what to do and how to check it."""
    head = f"{place}. {finding.code} ({finding.severity}): {finding.title}"
    lines = [bold(head, colour=colour), f"   {cost(finding, per)}", *(f"   {line}" for line in finding.lines)]
    return "\n".join([*lines, f"   do: {finding.remedy}", f"   check: {finding.verify}"])


def cost(finding: Finding, per: str = "a step") -> str:
    """Seconds now, speed then."""
    now = f"{time_text(finding.seconds_per_step)} {per} ({finding.share_fraction:.0%})"
    then = f"{finding.gain.low:.2f} to {finding.gain.high:.2f} times as fast"
    return f"{now}; fixed: {then}; confidence {finding.confidence}"


def smaller(findings: Sequence[Finding]) -> list[str]:
    """A line for those that are not shown."""
    more = len(findings) - MOST_FINDINGS
    if more <= 0:
        return []
    names = ", ".join(finding.code for finding in findings[MOST_FINDINGS:])
    return [f"{more} smaller finding{'s' if more > 1 else ''}: {names} (--json has all)"]


def overlap(findings: Sequence[Finding]) -> list[str]:
    """Several causes may be of the same time."""
    if len(findings) < 2:
        return []
    return ["findings overlap, their gains do not multiply: do the first, then look again"]


def untold(abstained: Sequence[Abstained], otherwise: str = "not in a trace") -> list[str]:
    """What could not be told; reasons that share a remedy are put in one line."""
    groups: dict[str, list[Abstained]] = {}
    for entry in abstained:
        groups.setdefault(entry.record_next, []).append(entry)
    lines = []
    for remedy, entries in groups.items():
        codes = ", ".join(entry.code for entry in entries)
        reason = entries[0].reason if len({entry.reason for entry in entries}) == 1 else otherwise
        lines.append(f"cannot tell: {codes} ({reason}); {remedy}")
    return lines


def time_text(seconds: float) -> str:
    """Seconds in a unit that reads well.

    >>> time_text(0.0123), time_text(2.5), time_text(4e-6)
    ('12.3 ms', '2.50 s', '4.0 µs')
    """
    if seconds >= 1.0:
        return f"{seconds:,.2f} s"
    return f"{seconds * 1e3:,.1f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:,.1f} µs"
