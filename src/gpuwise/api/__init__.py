"""The questions gpuwise answers, as Python functions. The command line and the web page are thin shells around them.

Each question's module is imported when it is first asked, so that a light question stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuwise.api.checkup import CheckedGpu, Checkup, doctor
    from gpuwise.api.hardware import GpuAnswer, GpuQuery, gpus
    from gpuwise.api.workloads import CaptureAnswer, CaptureQuery, KindRow, capture, capture_query

__all__ = [
    "CaptureAnswer",
    "CaptureQuery",
    "CheckedGpu",
    "Checkup",
    "GpuAnswer",
    "GpuQuery",
    "KindRow",
    "capture",
    "capture_query",
    "doctor",
    "gpus",
]

_HOMES = {
    "checkup": ("CheckedGpu", "Checkup", "doctor"),
    "hardware": ("GpuAnswer", "GpuQuery", "gpus"),
    "workloads": ("CaptureAnswer", "CaptureQuery", "KindRow", "capture", "capture_query"),
}


def __getattr__(name: str) -> Any:
    for module, exports in _HOMES.items():
        if name in exports:
            return getattr(import_module(f"gpuwise.api.{module}"), name)
    raise AttributeError(f"module 'gpuwise.api' has no attribute '{name}'")
