"""`gpuwise.watch` in a program: watches, and prints the verdict at the end."""

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

    It prints what `gpuwise watch` would; with `quiet` it does not, and `.answer` holds the answer, which `then` is called with.
    `profile` records a few steps of torch programs.
    """
    from gpuwise.questions.watch.here import Watch
    from gpuwise.questions.watch.text import render

    def show(answer: WatchAnswer) -> None:
        if not quiet:
            sys.stdout.write(render(answer) + "\n")
        then(answer)

    return Watch(items, model=model, precision=precision, profile=profile, then=show)
