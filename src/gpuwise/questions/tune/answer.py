"""Which batch, which power limit, which settings? Predicted for any GPU, or measured on this machine."""

from __future__ import annotations

from collections.abc import Callable

from gpuwise.questions.face import face
from gpuwise.questions.tune.ask import PowerQuery, TuneQuery, ask
from gpuwise.questions.tune.batch import TuneAnswer, tune_batch
from gpuwise.questions.tune.measuring import tune_measured
from gpuwise.questions.tune.options import TuneOptions
from gpuwise.questions.tune.power import PowerAnswer, tune_power
from gpuwise.questions.tune.types import MeasuredAnswer

__all__ = ["answer", "tune"]


def answer(
    options: TuneOptions, progress: Callable[[str], None] = lambda text: None
) -> TuneAnswer | PowerAnswer | MeasuredAnswer:
    """Try settings on this machine or, with `batch` or `power` before the model, return the step by batch or by power limit."""
    query = ask(options)
    if isinstance(query, TuneQuery):
        return tune_measured(query, progress)
    if isinstance(query, PowerQuery):
        return tune_power(query, progress)
    return tune_batch(query, progress)


tune = face(TuneOptions, answer)
