"""The price of a step: the one way to its time, range, bound and memory, for every question that asks for one."""

from gpuwise.engine.run import Measured, Run
from gpuwise.engine.steps import Steps, correction_by, predict_steps

__all__ = ["Measured", "Run", "Steps", "correction_by", "predict_steps"]
