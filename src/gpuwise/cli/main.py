"""The entry point: commands, and the one place where errors become words and an exit code."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from gpuwise import __version__
from gpuwise.cli.doctor import doctor
from gpuwise.cli.gpus import gpus
from gpuwise.errors import GpuwiseError

__all__ = ["app", "main"]

app = typer.Typer(
    name="gpuwise",
    help="Which GPU should I get, and why is mine slow?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(gpus)
app.command()(doctor)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gpuwise {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; a question that cannot be answered exits with 2 and says why."""
    try:
        app()
    except GpuwiseError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    except BrokenPipeError:
        # The reader (head, less) has gone: point stdout elsewhere so that the flush at exit does not fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
