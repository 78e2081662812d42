"""Runs commands without the third of a second that `python -m gpuwise` takes to start, by forking a process that has already
started.

A command still runs in its own process, with its arguments, folder, environment, output and exit code. Tests of what a command
answers or refuses use `Commands`. Tests of how it starts, what it imports and how it ends start a fresh process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import gpuwise

_SERVE = "from commanding import serve; serve()"
_LONGEST_S = 180


class Commands:
    """The process that has imported the command line, and commands forked from it, one after another."""

    def __init__(self) -> None:
        paths = os.pathsep.join([str(Path(gpuwise.__file__).parents[1]), str(Path(__file__).parent)])
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE],
            env=os.environ | {"PYTHONPATH": paths, "PYTHONUTF8": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Return what `python -m gpuwise` prints with these arguments in this folder."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as kept:
            question = {
                "arguments": arguments,
                "folder": str(folder),
                "environment": dict(os.environ),
                "kept": kept,
            }
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            said = [(Path(kept) / name).read_text(encoding="utf-8") for name in ("1", "2")]
        return subprocess.CompletedProcess(arguments, code, *said)

    def close(self) -> None:
        self._process.communicate()  # the process ends when its input ends


# ---------------------------------------------------------------- inside the forking process


def serve() -> None:
    """Answer questions until there are no more."""
    import numpy  # noqa: F401  most commands import it

    import gpuwise.surfaces.cli.main  # noqa: F401
    from gpuwise.surfaces.cli.commands import COMMANDS, app_of

    app_of(COMMANDS)
    for question in sys.stdin:
        if (forked := os.fork()) == 0:
            _command(json.loads(question))
        print(os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]), flush=True)


def _command(question: dict[str, Any]) -> None:
    """Run the command as in a process started by `python -m gpuwise`, then exit."""
    from gpuwise.surfaces.cli.main import main

    signal.alarm(_LONGEST_S)  # ends a command that hangs; the exit code then shows it
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number in (1, 2):
        os.dup2(os.open(Path(question["kept"]) / str(number), os.O_WRONLY | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(question["environment"])
    os.chdir(question["folder"])
    sys.path[:] = ["", *(path for path in sys.path[1:] if path != str(Path(__file__).parent))]
    sys.argv[:] = [str(Path(gpuwise.__file__).parent / "__main__.py"), *question["arguments"]]
    code: Any = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
