"""`gpuwise watch` in a terminal: shows a panel on stderr while the command runs, and routes the command's own output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpuwise.questions.common.options import Question, Shown
from gpuwise.surfaces.cli.output import show_progress

if TYPE_CHECKING:
    from gpuwise.live.sample.session import Session

__all__ = ["watch_live"]

_EVERY_S = 0.5  # between two looks of the panel: as often as a person reads
_RECENT = 32 * 3 * 300  # bytes of marks: some hundred steps


def watch_live(question: Question, options: Any, *, json: bool) -> Shown:
    """The answer; a panel meanwhile where a person is looking."""
    live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    stdout = None
    if json and not live:
        stdout = sys.stderr.fileno()
    elif live and not json and not sys.stdout.isatty():
        stdout = sys.stdout.fileno()  # `> out.txt` is meant for the program
    if options.prometheus:
        live = False  # a cluster is asked once
    with _panel(live) as (tick, lines):
        answer: Shown = question.answer(options, show_progress, tick=tick, lines=lines, stdout=stdout)
        return answer


@contextmanager
def _panel(live: bool) -> Iterator[tuple[Callable[[Session], None], Callable[[str, bool], None] | None]]:
    """What to do now and then, and with the command's lines: a panel on stderr where a person is looking, else nothing."""
    if not live:
        yield (lambda session: None), None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from gpuwise.live.sample.steps import typical_pace
    from gpuwise.questions.watch.panel_text import panel

    state: dict[str, Any] = {"at": -_EVERY_S, "passing": ""}
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as screen:

        def tick(session: Session) -> None:
            if session.seconds - state["at"] < _EVERY_S:
                return
            state["at"] = session.seconds
            recent = {number: data[-_RECENT:] for number, data in session.read().items()}
            text = panel(
                session.latest,
                typical_pace(recent),
                seconds=session.seconds,
                waiting_s=session.waiting_s(),
                faults=session.faults,
            )
            screen.update(Text("\n".join(filter(None, (state["passing"], text)))), refresh=True)

        def lines(line: str, passing: bool) -> None:
            if passing:
                state["passing"] = line
            else:
                state["passing"] = ""
                screen.console.print(Text.from_ansi(line), soft_wrap=True)

        yield tick, lines
