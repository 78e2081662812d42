"""Steps at several batches and precisions as text: one row for each, one column per GPU, and where the order changes."""

from __future__ import annotations

from gpuwise.core.provenance import Assumption
from gpuwise.core.units import format_si
from gpuwise.questions.common.prediction_types import Prediction
from gpuwise.questions.predict.grid import GridAnswer
from gpuwise.render.text import WIDTH, Column, bold, folded, join_notes, table, wrapped

__all__ = ["render"]


def render(answer: GridAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """A table whose cells hold a step and what limits it."""
    first = answer.results[0]
    keys = list(dict.fromkeys((result.precision, result.batch) for result in answer.results))
    cells = {(result.gpu.name, result.precision, result.batch): result for result in answer.results}
    names = list(dict.fromkeys(result.gpu.name for result in answer.results))
    columns = [
        Column(title="precision", cells=[precision for precision, _ in keys], right=False),
        Column(title="batch", cells=[str(batch) for _, batch in keys]),
    ]
    for name in names:
        found = [cells.get((name, *key)) for key in keys]
        columns.append(Column(title=name, cells=[format_si(one.step_s, "s") if one else "–" for one in found]))
        columns.append(Column(title="limited by", cells=[_limit(one) for one in found], right=False))
    size = f", sequence {first.seq}" if first.seq is not None else ""
    head = f"{bold(answer.model, colour=colour)}  {first.mode}{size}, one step"
    said = folded(_assumptions(answer), verbose=verbose)
    notes = [*answer.turns, *(f"note: {note}" for note in answer.notes), *said]
    shown = table(columns, width=width or WIDTH, colour=colour)
    return f"{head}\n\n{shown}" + join_notes([wrapped(note, width, "  ") for note in notes])


def _limit(result: Prediction | None) -> str:
    return "" if result is None else result.bound if result.fits else "DOES NOT FIT"


def _assumptions(answer: GridAnswer) -> list[Assumption]:
    """Everything that was assumed, for all steps or for some."""
    return list(dict.fromkeys([*answer.assumptions, *(note for result in answer.results for note in result.assumptions)]))
