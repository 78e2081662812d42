"""Turns the options of `fit` into its question."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.questions.common.step import StepQuery, step_query
from gpuwise.questions.fit.options import FitOptions

__all__ = ["FitQuery", "ask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitQuery:
    """One model on some GPUs; `display` if a desktop also runs on the GPU, `remedies` if ways to make it fit are requested."""

    step: StepQuery
    display: bool = False
    remedies: bool = True


def ask(options: FitOptions) -> FitQuery:
    """One model on some GPUs, checked and completed with stated defaults."""
    return FitQuery(step=step_query(options), display=options.display, remedies=options.remedies)
