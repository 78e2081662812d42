"""`gpuwise.watch` inside a program: it watches the run and prints the verdict at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuwise.questions.watch.here import Watch
    from gpuwise.questions.watch.types import WatchAnswer

__all__ = ["watch"]


def watch(
    items: Iterable[Any] | None = None,
    *,
    model: str = "",
    precision: str = "",
    profile: bool = True,
    quiet: bool = False,
    then: Callable[[WatchAnswer], None] = lambda answer: None,
) -> Watch:
    """Watch this program: `with gpuwise.watch(): ...`, or `for batch in gpuwise.watch(loader): ...`.

    At the end, it prints the same report as `gpuwise watch`, unless `quiet` is set. The result is stored in
    `.answer` and passed to `then`. With `profile`, a few steps of torch programs are recorded.
    """
    from gpuwise.questions.watch.here import Watch
    from gpuwise.questions.watch.text import render

    def show(answer: WatchAnswer) -> None:
        if not quiet:
            sys.stdout.write(render(answer) + "\n")
        then(answer)

    return Watch(items, model=model, precision=precision, profile=profile, then=show)
