"""`gpuwise watch`: a running training, watched."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from gpuwise import api
from gpuwise.core.errors import BadValue
from gpuwise.surfaces.cli.output import colour, print_json, print_text, show_progress

if TYPE_CHECKING:
    from gpuwise.live.sample.session import Session

__all__ = ["watch"]

_EVERY_S = 0.5
_RECENT = 32 * 3 * 300  # bytes of marks: some hundred steps


def watch(
    command: Annotated[Optional[list[str]], typer.Argument(metavar="[--] COMMAND...", help="What to run and watch.")] = None,
    pid: Annotated[Optional[int], typer.Option(help="A process that runs already, seen from outside.")] = None,
    prometheus: Annotated[
        str, typer.Option(metavar="URL", help="A Prometheus server that scrapes DCGM exporters: look at all their GPUs.")
    ] = "",
    last: Annotated[str, typer.Option(help="How far back to look with --prometheus: 90s, 10m (if not given), 2h.")] = "",
    model: Annotated[str, typer.Option(help="The model that runs: its step is held against its prediction.")] = "",
    precision: Annotated[str, typer.Option(help="The precision it runs in, for --model.")] = "",
    profile: Annotated[bool, typer.Option("--profile/--no-profile", help="Record a few steps of torch programs.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print JSON; what the command prints goes to stderr.")] = False,
) -> None:
    """Watch a training while it runs, and say at its end why it was slow, as `why` does. Ctrl-C ends it early.

    The exit code is that of the command. With --prometheus: which GPUs of a cluster are idle, throttled, spilling or straggling.
    """
    if bool(command) + (pid is not None) + bool(prometheus) != 1:
        raise BadValue(
            "name one thing to watch: a command, a process with --pid, or a cluster with --prometheus",
            hint="for example `gpuwise watch -- python train.py`",
        )
    if prometheus:
        _cluster(prometheus, last or "10m", bool(model or precision) or not profile, json=json)
        return
    if last:
        raise BadValue(
            "--last is for --prometheus", hint="for example `gpuwise watch --prometheus http://localhost:9090 --last 2h`"
        )
    live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    stdout = None
    if json and not live:
        stdout = sys.stderr.fileno()
    elif live and not json and not sys.stdout.isatty():
        stdout = sys.stdout.fileno()  # `> out.txt` is meant for the program
    with _panel(live) as (tick, lines):
        if pid is not None:
            answer = api.watch_pid(pid, model=model, precision=precision, tick=tick)
        else:
            answer = api.watch_command(
                command or [],
                model=model,
                precision=precision,
                profile=profile,
                tick=tick,
                lines=lines,
                stdout=stdout,
            )
    try:
        _show(answer, json=json)
    finally:
        if answer.run.exit_code:  # also where nobody reads our output any more
            raise typer.Exit(answer.run.exit_code)


def _show(answer: api.WatchAnswer, *, json: bool) -> None:
    if json:
        print_json(answer.to_dict())
    else:
        from gpuwise.questions.watch.text import render

        print_text(render(answer, colour=colour()))


def _cluster(url: str, last: str, steps_wanted: bool, *, json: bool) -> None:
    if steps_wanted:
        raise BadValue(
            "--model, --precision and --no-profile are for a watched command",
            hint="a Prometheus server holds no steps to compare",
        )
    show_progress(f"asking {url.rpartition('@')[2]}")
    answer = api.watch_cluster(url, last=last)
    if json:
        print_json(answer.to_dict())
    else:
        from gpuwise.questions.watch.cluster_text import render

        print_text(render(answer, colour=colour()))


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
    from gpuwise.questions.watch.text import panel

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
