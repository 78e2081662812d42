"""The outcome of a sweep as text: how much of the table is predicted, and why the rest is not."""

from __future__ import annotations

from gpuwise.questions.sweep.answer import SweptAnswer
from gpuwise.render.text import WIDTH, Column, bold, folded, join_notes, table, wrapped

__all__ = ["render"]

_SHOWN = 12  # reasons that fit one screen; `--json` has all
_WIDEST = 90  # characters of a reason: some name long paths


def render(answer: SweptAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """The table's name, how much of it is predicted, why the rest is not."""
    head = f"{answer.out}: {answer.points:,} points; {answer.predicted:,} were predicted, and {answer.fitting:,} fit in memory"
    asked = (
        f"{_count(answer.model_count, 'model')} × {_count(answer.gpu_count, 'GPU')} × "
        f"{_count(len(answer.batches), 'batch', 'batches')} × {_count(len(answer.precisions), 'precision')}"
    )
    blocks = [bold(head, colour=colour) + f"\n{asked}"]
    if answer.already_whole:
        blocks.insert(0, "nothing to do: the table is already complete (use `--fresh` to compute it again)")
    if answer.refused:
        shown = answer.refused if verbose else answer.refused[:_SHOWN]
        columns = [
            Column(title="points", cells=[f"{one.count:,}" for one in shown]),
            Column(title="not predicted because", cells=[_cut(one.reason) for one in shown], right=False),
            Column(title="first seen with", cells=[one.model for one in shown], right=False, drop=1),
        ]
        more = len(answer.refused) - len(shown)
        blocks.append(
            table(columns, width=width or WIDTH, colour=colour) + (f"\n… and {_count(more, 'more reason')}" if more else "")
        )
    return "\n\n".join(blocks) + join_notes([wrapped(note, width, "  ") for note in _notes(answer, verbose)])


def _notes(answer: SweptAnswer, verbose: bool) -> list[str]:
    notes = folded(answer.assumptions, verbose=verbose)
    if answer.kept_parts and not answer.already_whole:
        notes.append(f"{answer.kept_parts} of {answer.part_count} parts were kept from an earlier run")
    return notes


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
