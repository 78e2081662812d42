"""Progress bars on stderr for long work in a terminal. After Ctrl-C, a message says what was saved."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["FileBar", "counting", "show_share"]


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that reports how many of how many are done. Without a terminal, it prints nothing."""
    state = [0, 0]
    try:
        if not sys.stderr.isatty():
            yield lambda done, total: state.__setitem__(slice(None), [done, total])
            return
        with _bar(what, state) as tell:
            yield tell
    except KeyboardInterrupt:
        sys.stderr.write(f"stopped: {state[0]} of {state[1]} {what} are done and saved; run the same command again to continue\n")
        raise


@contextmanager
def _bar(what: str, state: list[int]) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True) as progress:
        task = progress.add_task(what, total=None)

        def tell(done: int, total: int) -> None:
            state[:] = [done, total]
            progress.update(task, completed=done, total=total, refresh=True)

        yield tell


def show_share(text: str, share: float) -> None:
    """Show a bar on stderr with the current work, if stderr is a terminal."""
    if sys.stderr.isatty():
        end = "\n" if share >= 1.0 and text == "done" else ""
        sys.stderr.write(f"\r{'█' * int(20 * share):20} {share:4.0%} {text:<24}{end}")
        sys.stderr.flush()


class FileBar:
    """A line on stderr that grows while a file is read, where a person is watching."""

    def __init__(self) -> None:
        self._shown = ""

    def __call__(self, text: str, fraction: float) -> None:
        if not sys.stderr.isatty():
            return
        line = f"{text} {'█' * int(20 * fraction):20} {fraction:4.0%}"
        if line != self._shown:
            sys.stderr.write(f"\r{line}" + ("\n" if fraction >= 1.0 else ""))
            self._shown = line
