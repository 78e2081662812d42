"""Predicts a step: the only source of its time, range, bound and memory, used by every question."""

from gpuwise.prediction.run import Measured, Run
from gpuwise.prediction.steps import Steps, correction_by, predict_steps

__all__ = ["Measured", "Run", "Steps", "correction_by", "predict_steps"]
