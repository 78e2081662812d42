"""The GPUs of a cluster as text: the verdict, what they are and did, and those with problems by name."""

from __future__ import annotations

from collections import defaultdict

from gpuwise.diagnose.fleet import FleetFinding, Member
from gpuwise.questions.common.findings_text import brief_notes, describe_abstained
from gpuwise.questions.watch.cluster import ClusterAnswer
from gpuwise.render.text import assumption_lines, bold, folded, join_notes, wrapped

__all__ = ["render"]

_MOST_NAMED = 10  # GPUs of one finding; `--json` has all
_BRIEF_FINDINGS, _BRIEF_NAMED = 3, 2  # what fits one screen


def render(answer: ClusterAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """Plain text that reads well without colour."""
    head = "\n".join(wrapped(line, width, "  ") for line in _head(answer).splitlines())
    shown = answer.findings if verbose else answer.findings[:_BRIEF_FINDINGS]
    most = _MOST_NAMED if verbose else _BRIEF_NAMED
    blocks = [bold(wrapped(answer.verdict, width), colour=colour), head]
    blocks += [_finding(answer, place, found, most, width, colour, verbose) for place, found in enumerate(shown, start=1)]
    closing = _closing(answer) if verbose else _brief_closing(answer)
    return "\n\n".join(blocks) + join_notes([wrapped(line, width, "  ") for line in closing])


def _head(answer: ClusterAnswer) -> str:
    hosts, minutes = len(answer.hosts), answer.window_s / 60
    span = f"{minutes:.0f} min" if minutes >= 2 else f"{answer.window_s:.0f} s"
    size = f"{len(answer.devices):,} GPU{'s' if len(answer.devices) != 1 else ''} on {hosts:,} host{'s' if hosts != 1 else ''}"
    lines = [f"{answer.address}: {size}, during the {span} before {answer.ended:%Y-%m-%d %H:%M} UTC"]
    kinds: dict[str, list[Member]] = defaultdict(list)
    for product, member in zip(answer.products, answer.members, strict=True):
        kinds[product].append(member)
    return "\n".join([*lines, *(_kind(product, members) for product, members in kinds.items())])


def _kind(product: str, members: list[Member]) -> str:
    """Return one line per product, with means and the highest temperature."""
    vitals = [member.vitals for member in members]
    parts = []
    for form, values in (
        ("busy {:.0%}", [one.busy_fraction for one in vitals]),
        ("SMs active {:.0%}", [one.sm_fraction for one in members]),
        ("{:,.0f} MHz under load", [None if one.clock_hz is None else one.clock_hz / 1e6 for one in vitals if one.load_count]),
        ("{:.0f} W", [one.power_watts for one in vitals]),
        ("memory {:.0%}", [one.memory_used_fraction for one in vitals]),
    ):
        known = [value for value in values if value is not None]
        if known:
            parts.append(form.format(sum(known) / len(known)))
    heat = [one.temperature_c for one in vitals if one.temperature_c is not None]
    parts += [f"up to {max(heat):.0f} °C"] if heat else []
    return f"{len(members):,} × {product}: {', '.join(parts) or 'no data'}"


def _finding(
    answer: ClusterAnswer, place: int, found: FleetFinding, most: int, width: int | None, colour: bool, verbose: bool
) -> str:
    finding = found.finding
    head = f"{place}. {finding.code}: {finding.title}"
    gain = f"{finding.gain.low:.2f} to {finding.gain.high:.2f}"
    wasted = f"this wastes up to {found.lost_gpus:.1f} GPUs ({finding.share_fraction:.0%})"
    lost = f"{wasted}; a fix would multiply the throughput by {gain}"
    lines = [f"{lost if found.lost_gpus else 'no known loss of time'}; confidence: {finding.confidence}"]
    for one in found.named[:most]:
        lines.append(f"{answer.members[one.number].vitals.name}: {'; '.join(one.finding.evidence)}")
    more = len(found.named) - most
    lines += [f"and {more:,} more (`{'--json' if verbose else '-v'}` lists {'all' if verbose else 'more'})"] if more > 0 else []
    lines += [f"fix: {finding.remedy}", *([f"check: {finding.verify}"] if verbose else [])]
    return "\n".join([bold(head, colour=colour), *(wrapped(f"   {line}", width, "     ") for line in lines)])


def _closing(answer: ClusterAnswer) -> list[str]:
    lines = describe_abstained(answer.abstained, otherwise="not exported")
    lines += [f"note: {note}" for note in answer.notes]
    return lines + assumption_lines(answer.assumptions)


def _brief_closing(answer: ClusterAnswer) -> list[str]:
    left = [found.finding.code for found in answer.findings[_BRIEF_FINDINGS:]]
    more = [f"{len(left)} more finding{'s' if len(left) > 1 else ''}: {', '.join(left)} (`-v` shows them)"] if left else []
    return [*more, *brief_notes(answer.notes, answer.abstained), *folded(answer.assumptions, verbose=False)]
