"""The chart for `tune batch`: how samples per second grow with the batch, and where they stop growing."""

from __future__ import annotations

from gpuwise.questions.common.batches_figure import batches_figure
from gpuwise.questions.tune.batch import TuneAnswer
from gpuwise.render.chart import Figure

__all__ = ["tuned_figure"]


def tuned_figure(answer: TuneAnswer) -> Figure:
    """Return a chart of every batch that fits, with the fastest one in the subtitle."""
    best = answer.best
    subtitle = f"{answer.mode}, {answer.precision}; fastest at batch {best.batch}, {best.samples_per_s:,.4g} samples per second"
    rates = [(point.batch, point.samples_per_s) for point in answer.batches]
    return batches_figure(answer.model, answer.gpu, subtitle, rates, answer.data_date)
