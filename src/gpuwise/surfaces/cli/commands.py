"""All commands. Each is built from the options that its question declares, or is a function in the module of the same name, which
is imported on first use.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from gpuwise import __version__
from gpuwise.questions.common.options import Declared, Question, Shown, declared
from gpuwise.questions.registry import QUESTIONS
from gpuwise.surfaces.cli.output import check_figure, print_answer, show_progress, wants_figure, with_report, write_figure
from gpuwise.surfaces.cli.runners import RUNNERS, Asked

__all__ = ["COMMANDS", "app_of", "command_of"]

COMMANDS = (*QUESTIONS, "serve")
_OPTIONS_FIRST = ("watch",)  # arguments after its first word belong to another program
_NO_ANSWER = ("serve",)  # no output that could be written as a report
_IN_BROWSER = "In the browser"  # the heading of the commands that are not questions


def app_of(names: Sequence[str]) -> typer.Typer:
    """Return the program with these commands. With only one command, it starts in half the time."""
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
            command = with_report(command)
        settings = {"allow_interspersed_args": False} if name in _OPTIONS_FIRST else None
        question = QUESTIONS.get(name)
        example = f"Example: {question.example}" if question else None
        app.command(context_settings=settings, epilog=example, rich_help_panel=question.group if question else _IN_BROWSER)(
            command
        )
    return app


def _command(name: str) -> Callable[..., None]:
    """Return the command, built from the options of its question or written by hand."""
    if name in QUESTIONS:
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


# ---------------------------------------------------------------- a command made from the options of its question

_TYPES: dict[str, Any] = {
    "text": str,
    "size": str,
    "amount": str,
    "whole": int,
    "number": float,
    "flag": bool,
    "file": Path,
    "names": list[str],
}
# What the command line adds to every question, or to those that ask for it with `SURFACE`.
_EVERY = (
    ("verbose", bool, False, typer.Option("--verbose", "-v", help="Print the full output with all assumptions.")),
    ("json", bool, False, typer.Option("--json", help="Print the output as JSON.")),
)
_SURFACE = {
    "figure": (
        "figure",
        Optional[Path],
        None,
        typer.Option("--figure", help="Also draw a chart to FILE.svg, FILE.html or FILE.png."),
    ),
    "strict": ("strict", bool, False, typer.Option("--strict", help="Exit with code 1 if the answer is no.")),
}


def command_of(question: Question) -> Callable[..., None]:
    """Return the command for a question, with the options as flags; it prints the result."""
    options = question.options
    looks: type | None = getattr(options, "LOOKS", None)
    surface = [*_EVERY, *(_SURFACE[name] for name in getattr(options, "SURFACE", ()))]

    def command(**values: Any) -> None:
        given = {name: value for name, value in values.items() if value is not None}
        own = {one.name: given[one.name] for one in declared(options) if one.name in given}
        shown = asdict(looks(**{one.name: given[one.name] for one in fields(looks) if one.name in given})) if looks else {}
        surfaced = {name: given.get(name) for name, _, _, _ in surface}
        _answer(question, Asked(options(**own), shown, surfaced))

    parameters = [_parameter(one) for one in (*declared(options), *(declared(looks) if looks else ()))]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])
        for name, kind, default, option in surface
    ]
    command.__name__ = question.name
    command.__doc__ = options.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _parameter(one: Declared) -> inspect.Parameter:
    kind: Any = _TYPES[one.kind]
    default = one.default
    if one.kind == "names":
        kind, default = (list[str] if one.required else Optional[list[str]]), None
    elif one.kind == "size":
        default = "" if default is None else str(default)
    elif one.optional:
        kind = Optional[kind]
    flag = one.option.flag or f"--{one.name.replace('_', '-')}"
    metavar = one.option.metavar or None
    if one.option.argument:
        note: Any = typer.Argument(help=one.option.help, metavar=metavar)
    else:
        note = typer.Option(*flag.split(), help=one.option.help, metavar=metavar)
    empty = inspect.Parameter.empty if one.required else default
    return inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=empty, annotation=Annotated[kind, note])


def _answer(question: Question, asked: Asked) -> None:
    figure, json = asked.surface.get("figure"), bool(asked.surface["json"])
    check_figure(figure)
    answer = _run(question, asked)
    try:
        print_answer(answer, _named(answer.TEXT), json=json, verbose=bool(asked.surface["verbose"]), **asked.shown)
    finally:
        if answer.exit_code:  # also where nobody reads our output any more
            raise typer.Exit(answer.exit_code)
    if wants_figure(figure) and answer.FIGURE:
        write_figure(figure, lambda: _named(answer.FIGURE)(answer, **asked.shown), quiet=json)
    if asked.surface.get("strict") and answer.says_no:
        raise typer.Exit(1)


def _run(question: Question, asked: Asked) -> Shown:
    """The answer; some questions have a function of their own here that shows how far they have come."""
    if question.name in RUNNERS:
        return RUNNERS[question.name](question, asked)
    answer: Shown = question.answer(asked.options, show_progress)
    return answer


def _named(where: str) -> Callable[..., Any]:
    module, _, function = where.rpartition(".")
    found: Callable[..., Any] = getattr(import_module(f"gpuwise.{module}"), function)
    return found
