"""Questions that tests modify before they are answered."""

from __future__ import annotations

from typing import Any

from gpuwise.questions.common.step import StepQuery
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.fit import ask as fit
from gpuwise.questions.fit.catalogue import catalogue_query as every_gpu
from gpuwise.questions.fit.options import FitOptions
from gpuwise.questions.predict import ask as predict
from gpuwise.questions.predict.options import PredictOptions

__all__ = ["catalogue_query", "fit_query", "predict_query"]


def predict_query(*args: Any, **options: Any) -> StepQuery:
    """The question that `gpuwise.predict` would answer."""
    return predict.ask(PredictOptions(*args, **options))


def fit_query(*args: Any, **options: Any) -> fit.FitQuery:
    """The question that `gpuwise.fit` would answer."""
    return fit.ask(FitOptions(*args, **options))


def catalogue_query(*args: Any, **options: Any) -> StepQuery:
    """The question that `gpuwise.fit(..., all=True)` would answer."""
    return every_gpu(StepOptions(*args, **options))
