"""The entry point: the one place where what goes wrong becomes words and an exit code."""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
from typing import Any, cast

__all__ = ["main"]

_SELDOM = 100_000  # objects between two looks for garbage: reading our tables makes many, and drops none
_HARD_SPACE = "\x00"  # cannot occur in a message: control characters are written out
_NARROWEST = 40  # columns: on fewer, lines break where the terminal breaks them


def main() -> None:
    """Run the command line; a question that cannot be answered exits with 2 and says why."""
    gc.set_threshold(_SELDOM)
    try:
        import typer

        from gpuwise.core.errors import GpuwiseError
        from gpuwise.surfaces.cli.commands import COMMANDS, app_of

        asked = sys.argv[1:2]
        app = app_of(asked if asked and asked[0] in COMMANDS else COMMANDS)
    except KeyboardInterrupt:
        sys.exit(130)
    if sys.stdout is None or sys.stdout.closed:
        sys.exit(2)  # nobody to answer to
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a sign that the terminal does not know is no reason to fail
    usage = cast("type[Exception]", typer.BadParameter.__mro__[1])  # UsageError, of whichever click typer stands on
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
        if isinstance(code, int):
            sys.exit(code)
    except usage as fault:
        _refuse(fault)
    except GpuwiseError as error:
        _complain(str(error), 2)
    except KeyboardInterrupt:
        _complain("interrupted", 130)
    except BrokenPipeError:
        _leave(0)  # the reader (head, less) has gone: no error
    except OSError as fault:
        _complain(f"error: the output cannot be written: {fault.strerror}\n\nhint: check the disk or the output file", 2)


def _refuse(fault: Any) -> None:
    """A command line that cannot be read; none at all gets the help."""
    if not sys.argv[1:]:
        fault.show()
        sys.exit(fault.exit_code)
    from gpuwise.surfaces.cli.usage import usage_error

    _complain(str(usage_error(fault, sys.argv[1])), 2)


def _complain(text: str, code: int) -> None:
    if sys.stderr is not None:
        from gpuwise.core.text import plain

        sys.stderr.write("\n".join(_wrapped(plain(line)) for line in text.split("\n")) + "\n")
    _leave(code)


def _wrapped(line: str) -> str:
    """A line on as many lines as the terminal needs; what is in backticks stays on one, so that it can be copied."""
    from gpuwise.render.text import WIDTH, wrapped

    width = min(shutil.get_terminal_size((WIDTH, 24)).columns, WIDTH) if sys.stderr.isatty() else WIDTH
    joined = re.sub(r"`[^`]+`", lambda found: found[0].replace(" ", _HARD_SPACE), line)
    return wrapped(joined, max(width, _NARROWEST), "    ").replace(_HARD_SPACE, " ")


def _leave(code: int) -> None:
    """End without a second complaint from the flush at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)
