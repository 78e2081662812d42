"""From the options of `predict` to its question."""

from __future__ import annotations

from gpuwise.questions.common.step import StepQuery, step_query
from gpuwise.questions.predict.options import PredictOptions

__all__ = ["ask"]


def ask(options: PredictOptions) -> StepQuery:
    """One model on some GPUs, checked and completed with stated defaults."""
    return step_query(
        options,
        link=options.link,
        image_decode=options.image_decode,
        workers=options.workers,
        on_this_machine=options.on_this_machine,
    )
