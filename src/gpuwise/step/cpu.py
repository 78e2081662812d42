"""A step on a CPU, through the kernel models of GPUs: nothing here is fitted, so the range is wide.

The models know units, clock, bandwidth and caches, which a CPU has too. What differs is said in the figures below, all assumed.
What was seen: PyTorch 2.13 trains ResNet-50 at 0.45 to 0.6 of the peak of one core of a Zen 4 server; two sockets of Xeon
Scalable reached 0.85 of the P100 that MLPerf 0.5 compares with; Torch7 of 2016 reached 0.05 of two Xeon E5-2630 v3.
"""

from __future__ import annotations

from dataclasses import replace

from gpuwise.step.types import Setting, Steps

__all__ = ["CPU_RANGE", "cpu_setting", "not_hidden_s"]

_FACTOR = 1.25  # CPU libraries take no Winograd shortcut, and their threads wait for each other after each op
CPU_RANGE = (0.5, 2.5)  # measured over predicted: libraries and memory differ much more than those of GPUs


def cpu_setting(setting: Setting) -> Setting:
    """The same setting with what a CPU's libraries reach, whatever the GPU's software does."""
    return replace(setting, stack=replace(setting.stack, factor=_FACTOR), link_bytes_per_s=None)


def not_hidden_s(steps: Steps) -> float:
    """Seconds that a GPU would hide: on a CPU the framework issues an op only when the one before is done."""
    return min(float(steps.lanes["gpu"][0, 0]), float(steps.lanes["host"][0, 0]))
