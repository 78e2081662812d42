"""Send values from a watched training run to loggers that the user has already set up. No logger is imported or set up here."""

from __future__ import annotations

import sys
from typing import Any

from gpuwise.live.sample.steps import Pace
from gpuwise.questions.watch.types import WatchAnswer

__all__ = ["figures", "pace_figures", "tell_wandb", "tell_writer"]


def figures(answer: WatchAnswer | None) -> dict[str, float]:
    """Return a few values by name."""
    if answer is None or answer.pace is None:
        return {}
    busy = answer.busy_fraction
    return pace_figures(answer.pace) | ({} if busy is None else {"gpuwise/busy_fraction": busy})


def pace_figures(pace: Pace | None) -> dict[str, float]:
    """Return the values that are known while training runs."""
    return {} if pace is None else {"gpuwise/step_s": pace.median_s, "gpuwise/input_wait_fraction": pace.wait_fraction}


def tell_wandb(answer: WatchAnswer | None) -> None:
    """Send the values to the open Weights & Biases run, if there is one."""
    wandb: Any = sys.modules.get("wandb")
    run = getattr(wandb, "run", None)
    if run is not None:
        run.summary.update(figures(answer))


def tell_writer(writer: Any, answer: WatchAnswer | None) -> None:
    """Send the values to a TensorBoard `SummaryWriter`, or any object with `add_scalar`, if one was given."""
    if writer is not None and answer is not None and answer.pace is not None:
        for name, value in figures(answer).items():
            writer.add_scalar(name, value, answer.pace.count)
        writer.flush()
