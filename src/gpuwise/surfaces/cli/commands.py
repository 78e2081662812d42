"""The commands under one name. Each is a function in a module of its name, imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated

import typer

from gpuwise import __version__
from gpuwise.questions.registry import QUESTIONS

__all__ = ["COMMANDS", "app_of"]

COMMANDS = (*QUESTIONS, "serve")
_OPTIONS_FIRST = ("watch",)  # what follows its first word belongs to another program
_NO_ANSWER = ("serve",)  # nothing that could be written as a report


def app_of(names: Sequence[str]) -> typer.Typer:
    """The program with these commands: with one alone it starts in half the time."""
    app = typer.Typer(
        name="gpuwise",
        help="Which GPU should I get, and why is mine slow?",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for name in names:
        command = _command(name)
        if name not in _NO_ANSWER:
            from gpuwise.surfaces.cli.reports import with_report

            command = with_report(command)
        settings = {"allow_interspersed_args": False} if name in _OPTIONS_FIRST else None
        app.command(context_settings=settings)(command)
    return app


def _command(name: str) -> Callable[..., None]:
    """Made from the options of its question, or written by hand."""
    if name in QUESTIONS:
        from gpuwise.surfaces.cli.derive import command_of

        return command_of(QUESTIONS[name])
    found: Callable[..., None] = getattr(import_module(f"gpuwise.surfaces.cli.{name}"), name)
    return found


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gpuwise {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass
