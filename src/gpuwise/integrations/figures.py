"""What a watched training tells the loggers that the user has set up already; none is set up for it."""

from __future__ import annotations

import sys
from typing import Any

from gpuwise.api.watching import WatchAnswer

__all__ = ["figures", "tell_wandb"]


def figures(answer: WatchAnswer | None) -> dict[str, float]:
    """A few numbers by name."""
    if answer is None or answer.pace is None:
        return {}
    found = {"gpuwise/step_s": answer.pace.median_s, "gpuwise/input_wait_fraction": answer.pace.wait_fraction}
    if answer.busy_fraction is not None:
        found["gpuwise/busy_fraction"] = answer.busy_fraction
    return found


def tell_wandb(answer: WatchAnswer | None) -> None:
    """To the run of Weights & Biases that is open, if one is."""
    wandb: Any = sys.modules.get("wandb")
    run = getattr(wandb, "run", None)
    if run is not None:
        run.summary.update(figures(answer))
