"""Which batch, as text: the points to choose from, and the table behind them."""

from __future__ import annotations

from gpuwise.questions.common.findings_text import time_text
from gpuwise.questions.tune.batch import TuneAnswer
from gpuwise.render.text import WIDTH, Column, bold, folded, join_notes, table, wrapped

__all__ = ["render"]


def render(answer: TuneAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """Return the text, with the choice first."""
    head = f"{bold(answer.model, colour=colour)}  {answer.mode}, {answer.precision} on {bold(answer.gpu, colour=colour)}"
    body = _batches(answer, width, colour)
    notes = [wrapped(line, width, "  ") for line in folded(answer.assumptions, verbose=verbose)]
    return f"{head}\n\n{body}{join_notes(notes)}"


def _batches(answer: TuneAnswer, width: int | None, colour: bool) -> str:
    best = answer.best
    smallest, *others = [(share, answer.enough(share).batch) for share in (0.90, 0.95, 0.99)]
    more = ", ".join(f"{share:.0%}: {batch:,}" for share, batch in others)
    lines = [
        f"  the best speed is {best.samples_per_s:,.4g} samples/s",
        f"  the smallest batch that reaches at least {smallest[0]:.0%} of it is {smallest[1]:,} ({more})",
        f"  doubling the batch beyond {answer.stops_paying.batch:,} no longer pays off",
        f"  the largest batch that fits is {answer.largest_batch:,}",
    ]
    columns = [
        Column(title="batch", cells=[f"{point.batch:,}" for point in answer.batches]),
        Column(title="step", cells=[time_text(point.step_s) for point in answer.batches]),
        Column(title="samples/s", cells=[f"{point.samples_per_s:,.4g}" for point in answer.batches]),
        Column(title="of the best", cells=[f"{point.samples_per_s / best.samples_per_s:.0%}" for point in answer.batches]),
    ]
    return "\n".join([*lines, "", table(columns, width=width or WIDTH, colour=colour)])
