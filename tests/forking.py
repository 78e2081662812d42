"""Runs captures without the two or three seconds that torch takes to start, by forking a process that has already started it.

A capture normally runs in a fresh process. Tests of what is recorded need a separate process with its session, limits and output,
but not the fresh start; they use `quick_captures`. Tests of how captures begin, end or are ended (time and memory limits,
children, what is imported from where) are marked `afresh`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

import gpuwise
from gpuwise.core.processes import PARENT
from gpuwise.workload.capture import process as capture

_SERVE = "from forking import serve; serve(int(__import__('sys').argv[1]))"
_ENCODING = "utf-8:backslashreplace"  # as in a capture
_MOST_BYTES = 2**20


class Forked:
    """The part of the `Popen` interface that a capture uses, for a process that another process has forked."""

    def __init__(self, told: IO[bytes], stdout: IO[bytes]) -> None:
        self._told, self.stdout = told, stdout
        self.pid = int(told.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = int(self._told.readline())
            self._told.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):  # the other process has noticed the end, but this one has not
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forker:
    """The process that has imported torch, and captures forked from it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        paths = os.pathsep.join([str(Path(gpuwise.__file__).parents[1]), str(Path(__file__).parent)])
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVE, str(theirs.fileno())],
                env=os.environ | capture.environment("none") | {"PYTHONIOENCODING": _ENCODING, "PYTHONPATH": paths},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def start(self, command: list[str], environment: Mapping[str, str]) -> Forked:
        output, told = os.pipe(), os.pipe()
        question = json.dumps({"command": command, "environment": dict(environment), "folder": str(Path.cwd())})
        socket.send_fds(self._socket, [question.encode("utf-8", "surrogateescape")], [output[1], told[1]])
        os.close(output[1])
        os.close(told[1])
        return Forked(os.fdopen(told[0], "rb", buffering=0), os.fdopen(output[0], "rb"))

    def close(self) -> None:
        self._socket.close()  # the process ends when its input ends
        self._process.wait()


@contextmanager
def quick(forker: Forker) -> Iterator[None]:
    """Fork captures. All other processes start as usual."""
    start = subprocess.Popen

    def popen(command: Any, **options: Any) -> Any:
        if list(command[1:3]) == ["-c", capture._RUN]:
            return forker.start(command, options["env"])
        return start(command, **options)

    with patch.object(capture, "subprocess", _Only(popen)):
        yield


class _Only:
    """The names from `subprocess` that a capture uses."""

    def __init__(self, popen: Any) -> None:
        self.Popen, self.PIPE, self.STDOUT, self.DEVNULL = popen, subprocess.PIPE, subprocess.STDOUT, subprocess.DEVNULL


# ---------------------------------------------------------------- inside the forking process


def serve(number: int) -> None:
    """Answer questions for captures until there are no more."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    import gpuwise.workload.capture.torch.step
    import gpuwise.workload.capture.worker  # noqa: F401

    FakeTensorMode()  # the first one imports about eight hundred modules, which takes as long as importing torch

    here = socket.socket(fileno=number)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system cleans up the processes that wait for captures
    while True:
        question, fds, _, _ = socket.recv_fds(here, _MOST_BYTES, 2)
        if not question:
            return
        if os.fork() == 0:
            here.close()
            _wait_for_capture(json.loads(question), *fds)
        for one in fds:
            os.close(one)


def _wait_for_capture(question: dict[str, Any], output: int, told: int) -> None:
    """Fork the capture, and report its process ID and how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    above = os.getpid()
    if (capturing := os.fork()) == 0:
        os.close(told)
        _capture(question, output, above)
    os.close(output)
    os.write(told, f"{capturing}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(capturing, 0)[1])
    os.write(told, f"{code}\n".encode())
    os._exit(0)


def _capture(question: dict[str, Any], output: int, above: int) -> None:
    """Set up this process like one that a capture starts."""
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.environ.clear()
    os.environ.update(question["environment"] | {PARENT: str(above)})
    os.chdir(question["folder"])
    sys.path[:] = ["", *(path for path in sys.path[1:] if path != str(Path(__file__).parent))]
    sys.argv[:] = ["-c", *question["command"][3:]]
    try:
        exec(question["command"][2], {"__name__": "__main__"})  # noqa: S102
    finally:
        os._exit(1)
