"""One model on one GPU by batch, as text."""

from __future__ import annotations

from gpuwise.core.units import format_si
from gpuwise.questions.predict.batches import SweepAnswer
from gpuwise.render.text import Column, bold, folded, join_notes, table

__all__ = ["render_batches"]


def render_batches(answer: SweepAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """A row for each batch of one model on one GPU."""
    head = f"{bold(answer.model, colour=colour)} on {answer.gpu}, by batch"
    if not answer.points:
        return f"{head}\n\nThe model was captured at only one batch size."
    columns = [
        Column(title="batch", cells=[f"{point.batch:,}" for point in answer.points]),
        Column(title="step", cells=[format_si(point.step_s, "s") for point in answer.points]),
        Column(title="samples/s", cells=[f"{point.samples_per_s:,.4g}" for point in answer.points]),
    ]
    return f"{head}\n\n{table(columns, width=width, colour=colour)}" + join_notes(folded(answer.assumptions, verbose=verbose))
