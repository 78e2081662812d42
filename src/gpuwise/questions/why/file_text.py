"""Answers about files without a timeline as text, Markdown or HTML."""

from __future__ import annotations

from html import escape

from gpuwise.diagnose.types import Finding
from gpuwise.questions.common.findings_text import MOST_FINDINGS, brief_notes, describe_abstained
from gpuwise.questions.why.file_answer import Discovery, FileAnswer, Listing
from gpuwise.render.text import WIDTH, Column, assumption_lines, bold, folded, join_notes, table, wrapped

__all__ = ["render"]

_BRIEF_ROWS = 5  # of a table, next to findings on one screen
_ROWS = 20
_BRIEF_FINDINGS = 3
_LONGEST_CELL = 60
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:50em;margin:2em auto;padding:0 1em}td,th{padding:0 .6em;text-align:left}"
)


def render(
    answer: FileAnswer, *, format: str = "text", width: int | None = None, colour: bool = False, verbose: bool = False
) -> str:
    """Plain text that reads well without colour, or the whole answer as Markdown or HTML."""
    if format != "text":
        return {"markdown": _markdown, "html": _html}[format](answer)
    shown = MOST_FINDINGS if verbose else _BRIEF_FINDINGS
    blocks = [
        bold(wrapped(answer.verdict, width), colour=colour),
        "\n".join(wrapped(line, width, "  ") for line in answer.head),
        *(_table(listing, width, colour, verbose) for listing in answer.listings if listing.rows),
    ]
    for place, one in enumerate(answer.found[:shown], start=1):
        blocks.append(_found(place, one, width=width, colour=colour, verbose=verbose))
    closing = _closing(answer) if verbose else _brief(answer)
    return "\n\n".join(filter(None, blocks)) + join_notes([wrapped(line, width, "  ") for line in closing])


def _found(place: int, one: Discovery | Finding, *, width: int | None, colour: bool, verbose: bool) -> str:
    lines = [*(one.lines if verbose else one.lines[:1]), f"fix: {one.remedy}"]
    if isinstance(one, Finding):
        lines.insert(0, _gain(one))
    lines += [f"check: {one.verify}"] if verbose else []
    head = wrapped(f"{place}. {one.code} ({one.severity}): {one.title}", width, "   ")
    return "\n".join([bold(head, colour=colour), *(wrapped(f"   {line}", width, "     ") for line in lines)])


def _gain(one: Finding) -> str:
    return f"a fix would make the run {one.gain.low:.2f} to {one.gain.high:.2f} times as fast; confidence: {one.confidence}"


def _table(listing: Listing, width: int | None, colour: bool, verbose: bool) -> str:
    rows = listing.rows[: _ROWS if verbose else _BRIEF_ROWS]
    columns = [
        Column(title=title, cells=[_cell(row[place]) for row in rows], right=place > 0, drop=max(place - 1, 0))
        for place, title in enumerate(listing.columns)
    ]
    more = len(listing.rows) - len(rows)
    rest = f"\n… and {more} more; {'`--json` lists' if verbose else '`-v` shows more of'} them" if more else ""
    return f"{listing.title}\n{table(columns, width=width or WIDTH, colour=colour)}{rest}"


def _cell(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else "…" + text[1 - _LONGEST_CELL :]


def _closing(answer: FileAnswer) -> list[str]:
    lines = describe_abstained(answer.abstained, otherwise="not recorded in such files")
    return [*lines, *(f"note: {note}" for note in answer.notes), *assumption_lines(answer.assumptions)]


def _brief(answer: FileAnswer) -> list[str]:
    return [*brief_notes(answer.notes, answer.abstained), *folded(answer.assumptions, verbose=False)]


def _whole(answer: FileAnswer) -> list[tuple[str, tuple[str, ...]]]:
    """Return a title and lines for each finding."""
    return [(f"{one.title} ({one.code})", (*one.lines, f"fix: {one.remedy}", f"check: {one.verify}")) for one in answer.found]


def _markdown(answer: FileAnswer) -> str:
    lines = [f"# {answer.verdict}", "", *(f"{line}  " for line in answer.head)]
    for listing in answer.listings:
        lines += ["", f"## {listing.title}", "", f"| {' | '.join(listing.columns)} |", f"|{'---|' * len(listing.columns)}"]
        lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in listing.rows[:_ROWS]]
    for title, said in _whole(answer):
        lines += ["", f"## {title}", "", *(f"- {line}" for line in said)]
    return "\n".join([*lines, "", *(f"- {line}" for line in _closing(answer))])


def _html(answer: FileAnswer) -> str:
    """Return a complete page without scripts, in which everything from the files is escaped."""
    body = [f"<h1>{escape(answer.verdict)}</h1>", *(f"<p>{escape(line)}</p>" for line in answer.head)]
    for listing in answer.listings:
        head = "".join(f"<th>{escape(title)}</th>" for title in listing.columns)
        rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in listing.rows[:_ROWS])
        body.append(f"<h2>{escape(listing.title)}</h2><table><tr>{head}</tr>{rows}</table>")
    for title, said in _whole(answer):
        body.append(f"<h2>{escape(title)}</h2><ul>{''.join(f'<li>{escape(line)}</li>' for line in said)}</ul>")
    body.append(f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in _closing(answer))}</ul>")
    head = f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>gpuwise why</title>\n<style>{_STYLE}</style>\n'
    return head + "\n".join(body) + "\n</html>"
