"""From the options of `predict` to its question."""

from __future__ import annotations

from gpuwise.questions.common.generating import TextQuery, asked_for_text
from gpuwise.questions.common.step import StepQuery, step_query
from gpuwise.questions.predict.options import PredictOptions

__all__ = ["ask", "ask_for_text"]


def ask(options: PredictOptions) -> StepQuery:
    """One model on some GPUs, checked and completed with stated defaults."""
    return step_query(
        options,
        link=options.link,
        image_decode=options.image_decode,
        workers=options.workers,
        on_this_machine=options.on_this_machine,
    )


def ask_for_text(options: PredictOptions) -> TextQuery | None:
    """A language model that generates text; None where a step is asked for."""
    return None if options.on_this_machine or options.method else asked_for_text(options, link=options.link)
