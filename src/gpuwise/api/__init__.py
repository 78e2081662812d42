"""The questions gpuwise answers, as Python functions. The command line and the web page are thin shells around them."""

from gpuwise.api.checkup import CheckedGpu, Checkup, doctor
from gpuwise.api.hardware import GpuAnswer, GpuQuery, gpus

__all__ = ["CheckedGpu", "Checkup", "GpuAnswer", "GpuQuery", "doctor", "gpus"]
