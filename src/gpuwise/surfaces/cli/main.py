"""The entry point, which turns every error into a message and an exit code."""

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
    """Run the command line. If a request cannot be answered, exit with code 2 and say why."""
    gc.set_threshold(_SELDOM)
    if sys.argv[1:2] == ["why"]:  # it multiplies no matrices, and numpy's threads for that would spin for a while
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        import typer

        from gpuwise.core.errors import GpuwiseError
        from gpuwise.surfaces.cli.commands import COMMANDS, app_of

        asked = sys.argv[1:2]
        app = app_of(asked if asked and asked[0] in COMMANDS else COMMANDS)
    except KeyboardInterrupt:
        sys.exit(130)
    if sys.stdout is None or sys.stdout.closed:
        sys.exit(2)  # there is no output
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # do not fail on a character that the terminal does not support
    usage = cast("type[Exception]", typer.BadParameter.__mro__[1])  # UsageError, of whichever click typer stands on
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
        gc.freeze()  # at exit, Python would look for garbage several times, which takes a quarter of a short command's CPU time
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
        _complain(_of_system(fault), 2)
    except SystemExit as leaving:  # so rich reacts to a reader that has gone, when it prints the help
        if not isinstance(leaving.__context__, BrokenPipeError):
            raise
        _leave(0)


def _of_system(fault: OSError) -> str:
    """The text for an error of the system. The output is the only file without a name that is used here."""
    from gpuwise.core.errors import BadFile
    from gpuwise.core.files import check_here

    try:
        check_here()
    except BadFile as gone:
        return str(gone)
    if fault.filename is not None:
        return f"error: '{fault.filename}' cannot be used: {fault.strerror}\n\nhint: check the path and its permissions"
    return f"error: the output cannot be written: {fault.strerror}\n\nhint: check the disk or the output file"


def _refuse(fault: Any) -> None:
    """Report a command line that cannot be parsed. Without any arguments, print the help."""
    if not sys.argv[1:]:
        fault.show()
        sys.exit(fault.exit_code)
    from gpuwise.surfaces.cli.usage import usage_error

    _complain(str(usage_error(fault, sys.argv[1])), 2)


def _complain(text: str, code: int) -> None:
    if sys.stderr is not None:
        from gpuwise.core.text import plain

        try:
            sys.stderr.write("\n".join(_wrapped(plain(line)) for line in text.split("\n")) + "\n")
        except OSError:  # nobody can be told, but the exit code can still be right
            _silence(2)
    _leave(code)


def _wrapped(line: str) -> str:
    """Wrap a line to the terminal width. Text in backticks stays on one line, so that it can be copied."""
    from gpuwise.render.text import WIDTH, wrapped

    width = min(shutil.get_terminal_size((WIDTH, 24)).columns, WIDTH) if sys.stderr.isatty() else WIDTH
    joined = re.sub(r"`[^`]+`", lambda found: found[0].replace(" ", _HARD_SPACE), line)
    return wrapped(joined, max(width, _NARROWEST), "    ").replace(_HARD_SPACE, " ")


def _leave(code: int) -> None:
    """Exit without a second error from the flush at exit."""
    _silence(1)
    sys.exit(code)


def _silence(descriptor: int) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
