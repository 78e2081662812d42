"""The price of a step: the one way to its time, range, bound and memory, for every question that asks for one."""

from gpuwise.predict.run import Measured, Run
from gpuwise.predict.steps import Steps, correction_by, predict_steps

__all__ = ["Measured", "Run", "Steps", "correction_by", "predict_steps"]
