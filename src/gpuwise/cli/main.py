"""The entry point: the one place where what goes wrong becomes words and an exit code."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; a question that cannot be answered exits with 2 and says why."""
    try:
        from gpuwise.cli.app import app
        from gpuwise.errors import GpuwiseError
    except KeyboardInterrupt:
        sys.exit(130)
    if sys.stdout is None or sys.stdout.closed:
        sys.exit(2)  # nobody to answer to
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a sign that the terminal does not know is no reason to fail
    try:
        app()
        sys.stdout.flush()
    except GpuwiseError as error:
        _complain(str(error), 2)
    except KeyboardInterrupt:
        _complain("interrupted", 130)
    except BrokenPipeError:
        _leave(0)  # the reader (head, less) has gone: no error
    except OSError as fault:
        _complain(f"error: the answer cannot be written: {fault.strerror}\n\nhint: check the disk or the file it goes to", 2)


def _complain(text: str, code: int) -> None:
    if sys.stderr is not None:
        from gpuwise.workload.plain_text import plain

        sys.stderr.write("\n".join(plain(line) for line in text.split("\n")) + "\n")
    _leave(code)


def _leave(code: int) -> None:
    """End without a second complaint from the flush at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)
