"""A training loop of PyTorch, watched: `for batch in gpuwise.integrations.torch.loop(loader): ...`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuwise.api.watching_here import Watch
from gpuwise.report.watch_here import watch

__all__ = ["loop"]


def loop(loader: Iterable[Any], *, model: str = "", precision: str = "", profile: bool = True, quiet: bool = False) -> Watch:
    """The batches of `loader`, each wait timed; every optimizer of torch ends a step. The verdict is printed at the end."""
    return watch(loader, model=model, precision=precision, profile=profile, quiet=quiet)
