"""Watch a PyTorch training loop: `for batch in gpuwise.integrations.torch.loop(loader): ...`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuwise.integrations.figures import tell_wandb, tell_writer
from gpuwise.questions.watch.face import watch
from gpuwise.questions.watch.here import Watch
from gpuwise.questions.watch.types import WatchAnswer

__all__ = ["loop"]


def loop(
    loader: Iterable[Any],
    *,
    model: str = "",
    precision: str = "",
    profile: bool = True,
    quiet: bool = False,
    writer: Any = None,
) -> Watch:
    """Iterate over the batches of `loader` and time each wait. Every torch optimizer step ends a step. The verdict is printed at
    the end.

    A few values are sent to `writer`, which can be your own `SummaryWriter`, and to an open Weights & Biases run. Call `record()`
    on the returned object to profile the next steps.
    """

    def tell(answer: WatchAnswer) -> None:
        tell_writer(writer, answer)
        tell_wandb(answer)

    return watch(loader, model=model, precision=precision, profile=profile, quiet=quiet, then=tell)
