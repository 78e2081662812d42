"""The charts of all GPUs as text: one row per GPU, one column per kind of work and precision."""

from __future__ import annotations

from gpuwise.core.text import plural, the
from gpuwise.core.units import GIB
from gpuwise.questions.charts.answer import PRECISIONS, ChartRow, ChartsAnswer
from gpuwise.render.text import WIDTH, Column, folded, join_notes, table, wrapped

__all__ = ["render"]

_EMPTY = (
    "An empty cell means that the work does not fit or that the precision brings no gain. The mean covers only work that fits. "
    "A price in parentheses is an outdated launch price."
)
_STAR = "* No GPU of this generation was measured, so its speed is computed from the spec sheet alone and is less certain."
_MOST_ROWS = 13  # of a brief answer, so that it fits a screen with its notes
_SHORT = {"fp32": "fp32", "16 bit": "16", "8 bit": "8", "4 bit": "4"}


def render(
    answer: ChartsAnswer, *, chart: str = "speed", width: int | None = None, colour: bool = False, verbose: bool = False
) -> str:
    """Speeds and speeds for the money, as multiples of the baseline's: the fastest GPUs, all of them with `verbose`."""
    rows = answer.rows if verbose else answer.rows[:_MOST_ROWS]
    columns = [
        Column(title="GPU", cells=[row.label for row in rows], right=False),
        Column(title="year", cells=[str(row.gpu.launched_on.year) if row.gpu.launched_on else "" for row in rows], drop=4),
        Column(title="GiB", cells=[f"{row.gpu.memory_bytes / GIB:.3g}" for row in rows], drop=3),
    ]
    for work in answer.query.work:
        for precision in sorted(work.precisions, key=PRECISIONS.index, reverse=True):
            speeds = [answer.speed(row, work.name, precision) for row in rows]
            drop = 1 if precision == "16 bit" else 2
            columns.append(Column(title=f"{work.name} {_SHORT[precision]}", cells=[_times(speed) for speed in speeds], drop=drop))
    columns += [
        Column(title="mean", cells=[_times(answer.mean(row)) for row in rows]),
        Column(title="price", cells=[_price(answer, row) for row in rows]),
        Column(title="for the price", cells=[_times(answer.value(row)) for row in rows]),
        Column(title="for total cost", cells=[_times(answer.value(row, owned=True)) for row in rows], drop=2),
    ]
    base = answer.baseline
    meaning = f"2.00 means twice as fast as {the(base.gpu.name)} in its fastest precision."
    if base.price:
        paid = answer.query.book.currency.show(base.price.usd)
        meaning += f" Speed for the price is relative to the same card at {paid}."
    head = f"{plural(str(len(answer.rows)), 'GPU')}, fastest first. {meaning}"
    notes = [_EMPTY] + ([] if all(row.known for row in rows) else [_STAR])
    left = len(answer.rows) - len(rows)
    notes += [f"{left} slower GPU{' is' if left == 1 else 's are'} not shown; `-v` lists all."] if left else []
    notes += folded(answer.assumptions, verbose=verbose)
    body = f"{wrapped(head, width)}\n\n{table(columns, width=width or (None if verbose else WIDTH), colour=colour)}"
    return body + join_notes([wrapped(note, width, "  ") for note in notes])


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _price(answer: ChartsAnswer, row: ChartRow) -> str:
    if row.price is None:
        return ""
    shown = answer.query.book.currency.show(row.price.usd)
    return shown if row.today else f"({shown})"
