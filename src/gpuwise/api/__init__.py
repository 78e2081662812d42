"""The questions gpuwise answers, as Python functions. The command line and the web page are thin shells around them."""

from gpuwise.api.doctor import CheckedGpu, Checkup, doctor
from gpuwise.api.gpus import GpuAnswer, GpuQuery, gpus

__all__ = ["CheckedGpu", "Checkup", "GpuAnswer", "GpuQuery", "doctor", "gpus"]
