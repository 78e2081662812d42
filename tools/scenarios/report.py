"""The report: a table on stdout, a page for the docs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from scenarios.types import NEAR, Judged, Part

__all__ = ["page", "share", "table"]

_SAID = {"yes": "yes", "overlap": "ranges overlap", "no": "no"}
_WIDTH = 130


def share(found: Sequence[Judged]) -> tuple[int, int]:
    """How many are answered, of how many that the evidence does not call wrong."""
    counted = [each for each in found if not each.doubt]
    return sum(each.answered for each in counted), len(counted)


def table(found: Sequence[Judged]) -> str:
    """One line a figure."""
    lines = []
    for each in found:
        mark = "apart" if each.doubt else "yes" if each.answered else "no"
        for part in each.parts:
            head = f"{each.asked.id}  {mark:<6}{part.key}: {_theirs(part)}; ours: {_ours(part)} ({_SAID[part.within]})"
            lines.append(textwrap.shorten(head, _WIDTH, placeholder=" …"))
    return "\n".join([*lines, "", _summary(found)])


def page(found: Sequence[Judged]) -> str:
    """The page for the docs."""
    counted = [each for each in found if not each.doubt]
    groups = {
        "Answered": [each for each in counted if each.answered],
        "Not answered": [each for each in counted if not each.answered],
        "Listed separately: the evidence casts doubt on the quoted answer": [each for each in found if each.doubt],
    }
    parts = [_HEAD, _summary(found)]
    for title, rows in groups.items():
        parts += [
            "",
            f"## {title} ({len(rows)})",
            "",
            "| id | question | quoted | gpuwise | within | command; why the answers differ |",
        ]
        parts += ["|---|---|---|---|---|---|", *(_row(each) for each in rows)]
    return "\n".join([*parts, ""])


_HEAD = f"""# Buyers' questions, and what gpuwise answers

`python tools/check_scenarios.py` writes this page. Readers of a GPU buying guide asked these questions between 2014 and 2019.
The quoted answers are opinions and measurements from that time. The script asks each question through the public interface, as
a user would. If the quoted answer is a number, ours counts if it is within {NEAR:.0%} of that number. If the quoted answer is a
range, ours counts if it is inside the range or within {NEAR:.0%} of the nearer end. If a question names no model, we answer with
a range over several kinds of work. In that case, overlapping ranges also count and are marked. A question counts as answered if
all its values count.
"""


def _summary(found: Sequence[Judged]) -> str:
    answered, total = share(found)
    counted = [each for each in found if not each.doubt]
    parts = [part for each in counted for part in each.parts]
    near = sum(part.within != "no" for part in parts)
    loose = sum(each.answered and any(part.within == "overlap" for part in each.parts) for each in counted)
    quoted = sum(each.answered and each.asked.quoted for each in counted)
    silent = sum(each.asked.ask is None for each in counted)
    return textwrap.fill(
        f"gpuwise answers {answered} of {total} questions ({answered / total:.0%}) and {near} of {len(parts)} values "
        f"({near / len(parts):.0%}). Of those {answered} questions, {loose} count only because the ranges overlap, and {quoted} "
        f"only repeat a rule from the guide. Of the others, {silent} have no answer from gpuwise at all. "
        f"{len(found) - total} more questions are listed separately, because the evidence casts doubt on the quoted answer.",
        _WIDTH,
    )


def _row(each: Judged) -> str:
    def column(texts: Sequence[str]) -> str:
        return "<br>".join(text.replace("|", "/") for text in texts)

    asked = each.asked
    why = "; ".join(text for text in (asked.how if asked.how != "-" else "", asked.why) if text)
    quoted = ["repeats a rule from the guide"] if asked.quoted else []
    doubt = [f"evidence: {each.doubt}"] if each.doubt else []
    cells = [
        asked.id,
        asked.question,
        column([f"{part.key}: {_theirs(part)}" for part in each.parts]),
        column([_ours(part) for part in each.parts]),
        column([_SAID[part.within] for part in each.parts]),
        column([why, *quoted, *doubt]),
    ]
    return "| " + " | ".join(cells) + " |"


def _theirs(part: Part) -> str:
    return f"{part.theirs[0]:g} to {part.theirs[1]:g}" if isinstance(part.theirs, list) else str(part.theirs)


def _ours(part: Part) -> str:
    return "-" if part.ours is None else str(part.ours)
