"""A training loop of PyTorch, watched: `for batch in gpuwise.integrations.torch.loop(loader): ...`."""

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
    """The batches of `loader`, each wait timed; every optimizer of torch ends a step. The verdict is printed at the end.

    A few figures go to `writer`, a `SummaryWriter` that you have, and to a run of Weights & Biases that is open. `record()` of
    what is returned lets the profiler record the next steps.
    """

    def tell(answer: WatchAnswer) -> None:
        tell_writer(writer, answer)
        tell_wandb(answer)

    return watch(loader, model=model, precision=precision, profile=profile, quiet=quiet, then=tell)
