"""Answers to "does it matter?" as text: one topic in full, or all of them by their number."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.questions.matters.types import Matter, MattersAnswer
from gpuwise.render.text import WIDTH, Column, bold, folded, join_notes, table, wrapped

__all__ = ["format_number", "render"]

_SAME = 0.05  # %: what rounds to 0.0 or 0.1 is no difference that anybody would notice
_MOST_ROWS = 16  # topics in a brief answer: 25 lines with what stands above and below
_LABEL = 11  # columns that the names of a sheet's parts take


def render(answer: MattersAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """A sheet of one topic, or a list of all; in brief the list leaves out the smallest effects."""
    wide = width or WIDTH
    notes = [wrapped(line, wide, "  ") for line in folded(answer.assumptions, verbose=verbose)]
    if len(answer.topics) == 1:
        return f"{_sheet(answer.topics[0], answer.case, wide, colour)}{join_notes(notes)}"
    shown = answer.topics if verbose else _largest(answer.topics)
    small = [topic.topic for topic in answer.topics if topic not in shown]
    if small:
        notes.insert(0, wrapped(f"`-v` also lists the topics with the smallest effects: {', '.join(small)}", wide, "  "))
    head = wrapped(f"Effects on {answer.case}. `gpuwise matters TOPIC` explains a topic.", wide)
    return f"{head}\n\n{_list(shown, wide, colour)}{join_notes(notes)}"


def _largest(topics: Sequence[Matter]) -> list[Matter]:
    """Return the topics without those that change nothing, and no more than fit on a screen; numbers that are not percentages
    are kept.
    """
    ranked = sorted(topics, key=_effect, reverse=True)
    kept = [topic for topic in ranked if _effect(topic) >= _SAME][:_MOST_ROWS]
    return [topic for topic in topics if topic in kept]


def _effect(topic: Matter) -> float:
    """Return how much a topic changes, in percent, for one GPU or several; infinite if its number is not a percentage."""
    return max(abs(topic.value), abs(topic.together or 0.0)) if topic.unit.startswith("%") else float("inf")


def _list(topics: Sequence[Matter], width: int, colour: bool) -> str:
    columns = [
        Column(title="  topic", cells=[f"  {topic.topic}" for topic in topics], right=False),
        Column(title="number", cells=[format_number(topic) for topic in topics]),
        Column(title="", cells=[_describe_unit(topic) for topic in topics], right=False),
    ]
    return table(columns, width=width, colour=colour)


def _sheet(topic: Matter, case: str, width: int, colour: bool) -> str:
    parts = {"case": case, "how": topic.how, "source": topic.source, "unless": topic.unless}
    lines = [
        f"{bold(topic.question, colour=colour)}  {_describe_number(topic)}",
        "",
        wrapped(topic.answer, width),
        "",
        *(wrapped(f"{name:<{_LABEL - 1}} {text}", width, " " * _LABEL) for name, text in parts.items() if text != "-"),
    ]
    return "\n".join(lines)


def _describe_number(topic: Matter) -> str:
    """The number and what it counts: `4.6% slower`, `48 GiB`."""
    unit = _describe_unit(topic)
    return f"{format_number(topic)}{'' if unit.startswith('%') else ' '}{unit}"


def _describe_unit(topic: Matter) -> str:
    """What the number counts, and its value for several GPUs that share one job where that differs."""
    if topic.together is None or abs(topic.together - topic.value) < _SAME:
        return topic.unit
    return f"{topic.unit}; {topic.gpu_count} GPUs in one job: {topic.together:.1f}%"


def format_number(topic: Matter) -> str:
    """The number with as many digits as matter."""
    size = abs(topic.value)
    if size >= 20:
        return f"{topic.value:,.0f}"
    if not topic.unit.startswith("%"):
        return f"{topic.value:.2f}"
    if 0 < size < _SAME:
        return "<0.1"
    return f"{topic.value:.1f}" if size else "0"
