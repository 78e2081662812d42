"""How fast a host can load images: its cores decode and transform them, the training process collects them."""

from __future__ import annotations

import math

from gpuwise.hardware.machines import find_host
from gpuwise.hardware.types import Host, Loader

__all__ = ["images_per_s", "seconds_per_image", "workers_for"]


def seconds_per_image(loader: Loader, host: Host) -> float:
    """What one core of this host spends on an image; hosts differ as they do in issuing ops."""
    return (loader.decode_s + loader.transform_s) * _slowness(loader, host)


def images_per_s(loader: Loader, host: Host, workers: float) -> float:
    """Images a second for one training process with this many workers, each with a core of its own."""
    return 1.0 / (seconds_per_image(loader, host) / workers + loader.handover_s * _slowness(loader, host))


def workers_for(loader: Loader, host: Host, rate: float) -> float:
    """Workers, each with a core, that load this many images a second; infinite where one process cannot collect so many."""
    left = 1.0 / rate - loader.handover_s * _slowness(loader, host)
    return math.ceil(seconds_per_image(loader, host) / left) if left > 0 else math.inf


def _slowness(loader: Loader, host: Host) -> float:
    return host.launch_s / find_host(loader.host).launch_s
