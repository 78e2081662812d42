"""Runs a command in its own process group until it ends, has produced enough, or its time is up. Leaves no process behind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuwise.core import errors
from gpuwise.core.processes import PARENT, TOKEN, Tail, kill
from gpuwise.workload.capture.process import START

__all__ = ["Ended", "in_python", "run_contained"]

_POLL_S = 0.05


class Ended(NamedTuple):
    """The outcome: the exit code (None if the command was stopped), whether its time was up, and the end of its output."""

    code: int | None
    is_late: bool
    said: str


def in_python(module: str, *arguments: str) -> list[str]:
    """Return a command that calls `run` of one of our modules, which it finds even if this process changed its path."""
    package = str(Path(errors.__file__).parents[2])
    return [sys.executable, "-c", f"{START}from {module} import run; run(*sys.argv[1:])", package, *arguments]


def run_contained(
    command: Sequence[str],
    variables: Mapping[str, str],
    *,
    timeout_s: float,
    is_enough: Callable[[], bool] = lambda: False,
) -> Ended:
    """Run the command. It and everything it started have ended when this returns, even after an interrupt."""
    with tempfile.TemporaryDirectory(prefix="gpuwise-tune-", ignore_cleanup_errors=True) as folder:
        token = Path(folder).name
        process = subprocess.Popen(  # noqa: S603 - our own interpreter, or the script that the user named
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONIOENCODING": "utf-8:backslashreplace", **variables, TOKEN: token, PARENT: str(os.getpid())},
            start_new_session=True,
        )
        assert process.stdout is not None  # noqa: S101
        output, deadline, late = Tail(process.stdout), time.monotonic() + timeout_s, False
        try:
            while process.poll() is None and not is_enough():
                late = time.monotonic() > deadline
                if late:
                    break
                time.sleep(_POLL_S)
            code = process.poll()
        finally:
            kill(process, token)
        return Ended(code, late, output.text())
