"""How fast a host can load images: its cores decode and transform them, the training process collects them."""

from __future__ import annotations

from gpuwise.hardware.machines import find_host
from gpuwise.hardware.types import Host, Loader

__all__ = ["images_per_s", "seconds_per_image"]


def seconds_per_image(loader: Loader, host: Host) -> float:
    """What one core of this host spends on an image; hosts differ as they do in issuing ops."""
    return (loader.decode_s + loader.transform_s) * _slowness(loader, host)


def images_per_s(loader: Loader, host: Host, workers: float) -> float:
    """Images a second for one training process with this many workers, each with a core of its own."""
    return 1.0 / (seconds_per_image(loader, host) / workers + loader.handover_s * _slowness(loader, host))


def _slowness(loader: Loader, host: Host) -> float:
    return host.launch_s / find_host(loader.host).launch_s
