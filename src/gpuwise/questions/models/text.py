"""The included models as text: brief by family, or a row for each."""

from __future__ import annotations

from itertools import groupby

from gpuwise.questions.models.answer import ModelsAnswer
from gpuwise.questions.models.listing import Listed
from gpuwise.render.text import WIDTH, Column, bold, table, wrapped

__all__ = ["render"]

_FEW = 16  # models that are listed one by one in a brief answer
_FOUND = 64  # the same where they were searched for


def render(answer: ModelsAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """A row for each model; where there are many, a line for each family."""
    count = f"{len(answer.models)} included {'model' if len(answer.models) == 1 else 'models'}"
    head = bold(
        count + (f" that {'matches' if len(answer.models) == 1 else 'match'} '{answer.search}'" if answer.search else ""),
        colour=colour,
    )
    if verbose or len(answer.models) <= (_FOUND if answer.search else _FEW):
        return f"{head}\n\n{_rows(answer.models, width, colour)}"
    families = [(name, list(found)) for name, found in groupby(answer.models, key=lambda entry: entry.family)]
    columns = [
        Column(title="family", cells=[name for name, _ in families], right=False),
        Column(title="models", cells=[str(len(found)) for _, found in families]),
        Column(title="such as", cells=[", ".join(entry.name for entry in found[:3]) for _, found in families], right=False),
    ]
    largest = sorted(range(len(families)), key=lambda place: -len(families[place][1]))[:_FEW]
    kept = [Column(title=one.title, cells=[one.cells[place] for place in largest], right=one.right) for one in columns]
    rest = len(families) - len(largest)
    more = f"{rest} more famil{'y' if rest == 1 else 'ies'}; " if rest > 0 else ""
    note = wrapped(f"{more}`gpuwise models llama` searches them, and `-v` lists every model.", width)
    return f"{head}\n\n{table(kept, width=width or WIDTH, colour=colour)}\n\n{note}"


def _rows(entries: tuple[Listed, ...], width: int | None, colour: bool) -> str:
    columns = [
        Column(title="model", cells=[entry.name for entry in entries], right=False),
        Column(title="parameters", cells=[_millions(entry.parameters) for entry in entries]),
        Column(title="for", cells=[entry.uses for entry in entries], right=False),
        Column(title="batch", cells=[str(entry.batch or "") for entry in entries]),
        Column(title="input", cells=[_input(entry) for entry in entries], right=False),
        Column(title="what it is", cells=[entry.title for entry in entries], right=False, drop=1),
    ]
    return table(columns, width=width or WIDTH, colour=colour)


def _millions(count: int) -> str:
    return f"{count / 1e9:.1f} B" if count >= 1e9 else f"{count / 1e6:.1f} M"


def _input(entry: Listed) -> str:
    if entry.image is not None:
        return f"{entry.image} pixels"
    return f"{entry.seq} tokens" if entry.seq is not None else ""
