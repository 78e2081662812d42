"""Answers to "does it matter" as text: one topic in full, or all of them by their number."""

from __future__ import annotations

import textwrap

from gpuwise.questions.matters.answer import MattersAnswer
from gpuwise.questions.matters.case import Matter
from gpuwise.render.text import Column, assumption_lines, bold, join_notes, table

__all__ = ["number", "render"]

_WIDTH = 110
_SAME = 0.05  # %


def render(answer: MattersAnswer, *, width: int | None = None, colour: bool = False) -> str:
    """A sheet, or a list."""
    wide = min(width or _WIDTH, _WIDTH)
    notes = assumption_lines(answer.assumptions)
    said = [textwrap.fill(note, wide, subsequent_indent="  ") for note in notes]
    if len(answer.topics) == 1:
        return f"{_sheet(answer.topics[0], answer.case, wide, colour)}{join_notes(said)}"
    head = f"for {answer.case}; `gpuwise matters TOPIC` tells how each is worked out and when it is not so"
    columns = [
        Column(title="  topic", cells=[f"  {topic.topic}" for topic in answer.topics], right=False),
        Column(title="number", cells=[number(topic) for topic in answer.topics]),
        Column(title="", cells=[_unit(topic) for topic in answer.topics], right=False),
    ]
    return f"{textwrap.fill(head, wide)}\n\n{table(columns, width=width, colour=colour)}{join_notes(said)}"


def _sheet(topic: Matter, case: str, width: int, colour: bool) -> str:
    lines = [f"{bold(topic.question, colour=colour)}  {number(topic)} {_unit(topic)}", "", topic.answer, ""]
    parts = {"case": case, "how": topic.how, "source": topic.source, "not so if": topic.unless}
    lines += [f"{name:<10} {text}" for name, text in parts.items() if text != "-"]
    return "\n".join(
        textwrap.fill(line, width, subsequent_indent=" " * 11 if line[:10].strip() in parts else "") for line in lines
    )


def _unit(topic: Matter) -> str:
    """What the number counts, and how it is for several GPUs as one job where that is another."""
    if topic.together is None or abs(topic.together - topic.value) < _SAME:
        return topic.unit
    return f"{topic.unit}; {topic.gpu_count} GPUs as one job: {topic.together:.1f} %"


def number(topic: Matter) -> str:
    """The number as a person says it."""
    size = abs(topic.value)
    if size >= 20:
        return f"{topic.value:,.0f}"
    if not topic.unit.startswith("%"):
        return f"{topic.value:.2f}"
    if 0 < size < _SAME:
        return "<0.1"
    return f"{topic.value:.1f}" if size else "0"
