"""What a step on a CPU takes, through the kernel models of GPUs: nothing here is fitted, so the range is wide.

The models know units, clock, bandwidth and caches, which a CPU has too. What differs is in the figures below, all assumed.
What was seen: PyTorch 2.13 trains ResNet-50 at 0.45 to 0.6 of the peak of one core of a Zen 4 server; two sockets of Xeon
Scalable reached 0.85 of the P100 that MLPerf 0.5 compares with; Torch7 of 2016 reached 0.05 of two Xeon E5-2630 v3.
"""

from __future__ import annotations

__all__ = ["CPU_FACTOR", "CPU_RANGE"]

# CPU libraries take no Winograd shortcut, and their threads wait for each other after each op; it stands in for the factor of a
# GPU's software.
CPU_FACTOR = 1.25
CPU_RANGE = (0.5, 2.5)  # measured over predicted: libraries and memory differ much more than those of GPUs
