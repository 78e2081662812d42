"""The chart for one model on one GPU at the requested batches."""

from __future__ import annotations

from gpuwise.core.errors import BadValue
from gpuwise.questions.common.batches_figure import batches_figure
from gpuwise.questions.predict.batches import SweepAnswer
from gpuwise.render.chart import Figure

__all__ = ["swept_figure"]


def swept_figure(answer: SweepAnswer) -> Figure:
    """Every batch that was asked for, whether or not it fits."""
    if not answer.points:
        raise BadValue(
            f"{answer.model} was captured at only one batch size, so there is nothing to draw", hint="leave out `--figure`"
        )
    rates = [(point.batch, point.samples_per_s) for point in answer.points]
    return batches_figure(answer.model, answer.gpu, "", rates, answer.data_date)
